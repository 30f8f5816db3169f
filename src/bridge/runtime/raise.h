// A new error as the Python exception that is set, for a function of Python's to return.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/raise.h>  // Python.h must come before any standard header

#include <isthmus/python/runtime/errors.h>

ISTHMUS_BEGIN

namespace detail {

/// Sets the exception of a new error; NULL, for a function of Python's to return.
ISTHMUS_COLD inline PyObject* raise(ErrorCode code, ErrorKind kind, Message text) {
    set_python_error(Error(code, kind, concat({text})));
    return nullptr;
}

ISTHMUS_COLD inline PyObject* raise_argument(const char* name, PyObject* found, const char* wanted,
                                             ErrorKind kind = ErrorKind::value) {
    Ref text(PyObject_Repr(found));
    const std::string_view utf8 = utf8_of(text.get());
    if (utf8.data() == nullptr) return nullptr;
    return raise(ErrorCode::bad_argument, kind, {argument_prefix(name), "found ", utf8, "; wanted ", wanted});
}

}  // namespace detail

ISTHMUS_END
