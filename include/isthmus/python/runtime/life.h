// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/interned.h>
#include <isthmus/python/dispatch/type_cache.h>

ISTHMUS_BEGIN

namespace detail {

/// What the extensions of one process that have the same ISTHMUS_ABI share: whoever comes first makes it and leaves it in the
/// interpreter's dictionary; it is never freed, since objects made from it may outlive everybody.
struct SharedRuntime {
    std::uint32_t size;         ///< of this struct: fields are only ever added at the end
    PyTypeObject* tensor;       ///< isthmus.Tensor; NULL, as the next three, until somebody makes one (shared_types())
    PyTypeObject* dtype;        ///< isthmus.DType
    PyTypeObject* device;       ///< isthmus.Device
    PyTypeObject* device_type;  ///< isthmus.DeviceType
    PyObject* error;            ///< isthmus.Error
    PyObject* error_kinds[3];   ///< by ErrorKind: also a TypeError, a ValueError, a BufferError
    ObserverHub observers;      ///< so that live_tracking() in one extension sees the tensors of all
};

/// What this extension keeps for one life of the interpreter.
struct LocalRuntime {
    PyInterpreterState* interpreter;
    SharedRuntime* shared;
    bool hooked;
};
ISTHMUS_STATE LocalRuntime local_runtime{};

inline constexpr const char* runtime_key = "isthmus.runtime.abi1";
static_assert(ISTHMUS_ABI == 1, "the key of the shared runtime carries the ABI");

inline void forget_interpreter() noexcept {
    local_runtime = LocalRuntime{};
    names_state = Names{};
    forget_types();
}
/// Whether CPython calls forget_interpreter() when the interpreter is gone.
ISTHMUS_STATE bool forgotten_at_exit = false;

/// The interpreter is about to end. The main one still runs code after this (other hooks, daemon threads, the destructors of
/// modules), some of it perhaps in the midst of an import: what is cached stays until all that is over.
ISTHMUS_COLD inline PyObject* end_of_interpreter(PyObject*, PyObject*) {
    close_door();
    if (!forgotten_at_exit || PyInterpreterState_Get() != PyInterpreterState_Main()) forget_interpreter();
    Py_RETURN_NONE;
}

/// Makes this extension ready in the running interpreter. False with a Python exception set.
ISTHMUS_COLD inline bool start_runtime() {
    PyInterpreterState* here = PyInterpreterState_Get();
    if (local_runtime.interpreter == here && local_runtime.hooked) return true;
    if (local_runtime.interpreter != nullptr && local_runtime.interpreter != here) {
        PyErr_SetString(PyExc_RuntimeError,
                        "isthmus is already in use in another interpreter of this process; subinterpreters are not supported, "
                        "use a process of its own");
        return false;
    }
    if (!names_state.ready && !names_state.make()) return false;
    open_door();
    static PyMethodDef hook{"isthmus_end_of_interpreter", end_of_interpreter, METH_NOARGS, nullptr};
    Ref function(PyCFunction_New(&hook, nullptr));
    Ref atexit(PyImport_ImportModule("atexit"));
    if (!function || !atexit) return false;
    Ref registered(PyObject_CallMethod(atexit.get(), "register", "O", function.get()));
    if (!registered) return false;
    forgotten_at_exit = here == PyInterpreterState_Main() && Py_AtExit(forget_interpreter) == 0;
    local_runtime.interpreter = here;
    local_runtime.hooked = true;
    return true;
}

ISTHMUS_COLD inline bool make_errors(SharedRuntime& shared) {
    struct Row {
        const char* name;
        PyObject* builtin;
        const char* doc;
    };
    const Row rows[] = {
        {"isthmus.TensorTypeError", PyExc_TypeError, "The object is not a tensor of any kind that Isthmus knows."},
        {"isthmus.TensorValueError", PyExc_ValueError, "An argument does not fit what was wanted."},
        {"isthmus.TensorBufferError", PyExc_BufferError,
         "The data cannot be exchanged as it is; the text says what to call first."},
    };
    shared.error = PyErr_NewExceptionWithDoc(
        "isthmus.Error", "Any failure of an exchange. `code` is the name of its isthmus::ErrorCode.", PyExc_Exception, nullptr);
    if (shared.error == nullptr || PyObject_SetAttrString(shared.error, "code", Py_None) != 0) return false;
    for (int i = 0; i < 3; ++i) {
        Ref bases(PyTuple_Pack(2, shared.error, rows[i].builtin));
        if (!bases) return false;
        shared.error_kinds[i] = PyErr_NewExceptionWithDoc(rows[i].name, rows[i].doc, bases.get(), nullptr);
        if (shared.error_kinds[i] == nullptr) return false;
    }
    return true;
}

/// isthmus/python/runtime/observe.h
BlockWords words_of_python(const Block* block, bool tracing) noexcept;

inline SharedRuntime* join_runtime(SharedRuntime* shared) noexcept {
    if (shared == nullptr) return nullptr;
    words_of_block.store(words_of_python);
    if (shared->size >= offsetof(SharedRuntime, observers) + sizeof(ObserverHub)) join_observers(shared->observers);
    return local_runtime.shared = shared;
}

/// The shared part, made at the first need. NULL with a Python exception set.
ISTHMUS_COLD inline SharedRuntime* find_shared_runtime() {
    if (!start_runtime()) return nullptr;
    PyObject* dict = PyInterpreterState_GetDict(local_runtime.interpreter);  // borrowed
    if (dict == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "isthmus: this interpreter keeps no dictionary");
        return nullptr;
    }
    PyObject* known = PyDict_GetItemString(dict, runtime_key);
    if (known != nullptr) return join_runtime(static_cast<SharedRuntime*>(PyCapsule_GetPointer(known, runtime_key)));
    auto* shared = static_cast<SharedRuntime*>(std::calloc(1, sizeof(SharedRuntime)));
    if (shared == nullptr) return PyErr_NoMemory(), nullptr;
    shared->size = sizeof(SharedRuntime);
    Ref capsule(PyCapsule_New(shared, runtime_key, nullptr));
    if (!capsule || !make_errors(*shared) || PyDict_SetItemString(dict, runtime_key, capsule.get()) != 0) return nullptr;
    return join_runtime(shared);
}
inline SharedRuntime* shared_runtime() {
    return ISTHMUS_LIKELY(local_runtime.shared != nullptr) ? local_runtime.shared : find_shared_runtime();
}

}  // namespace detail

ISTHMUS_API void set_python_error(const Error& error) noexcept {
    detail::surviving_exit([&] {
        auto* cause = static_cast<PyObject*>(error.cause());
        if (cause != nullptr && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)) {
            Py_INCREF(cause);
            detail::restore_exception(cause);
            return;
        }
        if (error.code() == ErrorCode::out_of_memory) {
            PyErr_SetString(PyExc_MemoryError, error.what());
            return;
        }
        PyErr_Clear();
        detail::SharedRuntime* shared = detail::shared_runtime();
        if (shared == nullptr) return;
        // The text may quote what a producer called itself, in whatever bytes.
        Ref text(PyUnicode_DecodeUTF8(error.what(), static_cast<Py_ssize_t>(std::strlen(error.what())), "backslashreplace"));
        Ref exception(text ? PyObject_CallOneArg(shared->error_kinds[static_cast<int>(error.kind())], text.get()) : nullptr);
        Ref code(PyUnicode_FromString(error_code_name(error.code())));
        if (!exception || !code || PyObject_SetAttrString(exception.get(), "code", code.get()) != 0) return;
        if (cause != nullptr) {
            Py_INCREF(cause);
            PyException_SetCause(exception.get(), cause);
        }
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    });
}

ISTHMUS_END
