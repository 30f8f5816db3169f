// isthmus::Error as a Python exception.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/error.h>
#if ISTHMUS_DEFINE
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/shared_runtime.h>
#endif

ISTHMUS_BEGIN

/// Raises `error` as the Python exception that fits: isthmus.Error and TypeError, ValueError or BufferError by its kind, with
/// `code` set and the producer's own exception as `__cause__`. A producer's KeyboardInterrupt and its like pass unchanged.
ISTHMUS_API void set_python_error(const Error& error) noexcept;

#if ISTHMUS_DEFINE

namespace detail {

/// The exception object of an error, a new reference; NULL with another exception set.
inline PyObject* exception_of(const Error& error, SharedRuntime& shared) {
    Ref text(PyUnicode_FromString(error.what()));
    Ref exception(text ? PyObject_CallOneArg(shared.error_kinds[static_cast<int>(error.kind())], text.get()) : nullptr);
    Ref code(PyUnicode_FromString(error_code_name(error.code())));
    if (!exception || !code || PyObject_SetAttrString(exception.get(), "code", code.get()) != 0) return nullptr;
    if (auto* cause = static_cast<PyObject*>(error.cause())) PyException_SetCause(exception.get(), Py_NewRef(cause));
    return exception.release();
}

}  // namespace detail

ISTHMUS_API void set_python_error(const Error& error) noexcept {
    detail::surviving_exit([&] {
        auto* cause = static_cast<PyObject*>(error.cause());
        if (cause != nullptr && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)) {
            detail::restore_exception(Py_NewRef(cause));
            return;
        }
        if (error.code() == ErrorCode::out_of_memory) {
            PyErr_SetString(PyExc_MemoryError, error.what());
            return;
        }
        PyErr_Clear();
        detail::SharedRuntime* shared = detail::shared_runtime();
        if (shared == nullptr) return;
        Ref exception(detail::exception_of(error, *shared));
        if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    });
}

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

#endif

ISTHMUS_END
