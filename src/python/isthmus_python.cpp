// The bridge, compiled once for a project that defines ISTHMUS_COMPILED.
// SPDX-License-Identifier: Apache-2.0
#define ISTHMUS_BUILDING

#include <isthmus/python.h>
#include <isthmus/python/impl.h>
#include <isthmus/python/operator/register.h>
