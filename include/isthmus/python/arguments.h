// Arguments: the arguments of a function over the bare CPython API, each as its declared type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/call_arguments.h>  // Python.h must come before any standard header

#include <tuple>
