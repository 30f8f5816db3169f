// What an operator's function threw, as a Python exception.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/raise.h>  // Python.h must come before any standard header

#include "call.h"

ISTHMUS_BEGIN

namespace detail {

/// isthmus::Error and the classes of <stdexcept> become the Python exceptions that fit. Needs the GIL.
ISTHMUS_COLD inline void set_thrown(const OperatorDefinition& op, const Thrown& thrown) {
    if (thrown.kind == Thrown::Kind::error && thrown.error) return set_python_error(*thrown.error);
    PyObject* const classes[] = {
        nullptr, nullptr, PyExc_MemoryError, PyExc_ValueError, PyExc_IndexError, PyExc_OverflowError, PyExc_RuntimeError};
    PyErr_Format(classes[static_cast<int>(thrown.kind)], "%s(): %s", op.function.c_str(), thrown.text.c_str());
}

}  // namespace detail

ISTHMUS_END
