// isthmus::python as one translation unit, for a library or for the file that defines ISTHMUS_IMPLEMENTATION.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>  // Python.h must come before any standard header

#include "bridge/arguments.cpp"
#include "bridge/binding.cpp"
#include "bridge/fields.cpp"
#include "bridge/framework/facts.cpp"
#include "bridge/from_py.cpp"
#include "bridge/handles.cpp"
#include "bridge/module.cpp"
#include "bridge/operators/call.cpp"
#include "bridge/operators/definition.cpp"
#include "bridge/operators/dtypes.cpp"
#include "bridge/operators/eager.cpp"
#include "bridge/operators/jax.cpp"
#include "bridge/operators/object.cpp"
#include "bridge/operators/torch.cpp"
#include "bridge/operators/ufunc.cpp"
#include "bridge/records.cpp"
#include "bridge/results.cpp"
#include "bridge/runtime/errors.cpp"
#include "bridge/to_py.cpp"
#include "bridge/tree.cpp"
