// The list of the operators that all extensions of the process have registered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/python/runtime/lookups.h>

ISTHMUS_BEGIN

namespace detail {

/// All operators of the process: a list in the interpreter's dictionary, where Python code finds those of every extension.
/// Empty with a Python exception set.
inline Ref all_operators() {
    PyObject* dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    const Ref list(dict != nullptr ? PyList_New(0) : nullptr);
    return list ? dict_item_or(dict, "isthmus.operators", list.get()) : Ref();
}

}  // namespace detail

ISTHMUS_END
