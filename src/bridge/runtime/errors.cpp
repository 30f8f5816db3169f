// isthmus::Error as a Python exception.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/api.h>

#include "errors.h"
#include "shared_runtime.h"

ISTHMUS_BEGIN

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

static bool raise_here(const Error& error) {
    if (is_interrupted()) return true;
    auto* cause = static_cast<PyObject*>(error.cause());
    if (cause != nullptr && passes_through(cause)) {
        restore_exception(Py_NewRef(cause));
        return true;
    }
    if (error.code() == ErrorCode::out_of_memory) {
        PyErr_SetString(PyExc_MemoryError, error.what());
        return true;
    }
    SharedRuntime* shared = shared_runtime();
    if (shared == nullptr) return true;
    Ref exception(exception_of(error, *shared));
    if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    return true;
}

}  // namespace detail

void set_python_error(const Error& error) noexcept {
    const auto raise = [&] { return detail::raise_here(error); };
    if (detail::running_thread_state() != nullptr)  // also that of a subinterpreter, which is refused by this error
        (void)detail::surviving_exit(raise);
    else
        (void)detail::with_gil(raise, [] { return false; });
}

ISTHMUS_END
