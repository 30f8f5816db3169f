// The layouts and signatures that modules of the stable ABI and their backend share, the bridge's among them.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/op.h>  // Python.h must come before any standard header

#include <isthmus/array_like.h>
#include <isthmus/fields.h>
#include <isthmus/owned.h>
#include <isthmus/python/distinct.h>
#include <isthmus/python/overloads.h>
#include <isthmus/python/value_arguments.h>
#include <isthmus/records.h>
#include <isthmus/tensor_protocol.h>
#include <isthmus/tree.h>

#include "../../core/support/rows.h"
