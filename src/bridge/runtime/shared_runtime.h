// Shared by the extensions of one process that have the same ABI: the Python types and the exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/life.h>  // Python.h must come before any standard header

#include <cstdlib>

#include <isthmus/core/error.h>
#include <isthmus/core/observer.h>
#include <isthmus/python/runtime/interned.h>
#include <isthmus/python/runtime/lookups.h>
#include "observe.h"
#include <isthmus/python/runtime/ref.h>

ISTHMUS_BEGIN

namespace detail {

/// The first extension makes it and stores it in the interpreter's dictionary; it is never freed, since objects made from it
/// may outlive every extension. Part of the shared ABI (docs/abi.md): fields are only ever added at the end.
struct SharedRuntime {
    std::uint32_t size;         ///< of this struct, as its maker knows it
    PyTypeObject* tensor;       ///< isthmus.Tensor; NULL, as the next three, until somebody makes one (make_types())
    PyTypeObject* dtype;        ///< isthmus.DType
    PyTypeObject* device;       ///< isthmus.Device
    PyTypeObject* device_type;  ///< isthmus.DeviceType
    PyObject* error;            ///< isthmus.Error
    PyObject* error_kinds[3];   ///< by ErrorKind: also a TypeError, a ValueError, a BufferError
    ObserverHub observers;      ///< so that live_tracking() in one extension sees the tensors of all
};
/// NULL until join_runtime() in this session.
ISTHMUS_STATE PerLife<SharedRuntime*> shared_state;

inline constexpr const char* runtime_key = "isthmus.runtime.abi2";
static_assert(ISTHMUS_ABI == 2, "the key of the shared runtime carries the ABI");

ISTHMUS_NOINLINE inline bool make_exceptions(SharedRuntime& shared) {
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

inline SharedRuntime* join_runtime(SharedRuntime* shared) noexcept {
    if (shared == nullptr) return nullptr;
    tell_observers_of_python();
    if (shared->size >= offsetof(SharedRuntime, observers) + sizeof(ObserverHub)) {
        const StateLock lock(interpreter_life.mutex);
        join_observers(shared->observers);
    }
    (void)shared_state.keep(shared);
    return *shared_state;
}

inline void end_unused_runtime(SharedRuntime* shared) {
    Py_XDECREF(shared->error);
    for (PyObject* kind : shared->error_kinds) Py_XDECREF(kind);
    std::free(shared);
}

/// A new shared part, or the one that another thread or extension has stored in `dict` meanwhile. NULL with a Python exception
/// set.
ISTHMUS_COLD inline SharedRuntime* make_shared_runtime(PyObject* dict) {
    auto* made = static_cast<SharedRuntime*>(std::calloc(1, sizeof(SharedRuntime)));
    if (made == nullptr) {
        PyErr_NoMemory();
        return nullptr;
    }
    made->size = sizeof(SharedRuntime);
    const Ref capsule(make_exceptions(*made) ? PyCapsule_New(made, runtime_key, nullptr) : nullptr);
    const Ref kept = capsule ? dict_item_or(dict, runtime_key, capsule.get()) : Ref();
    auto* shared = kept ? static_cast<SharedRuntime*>(PyCapsule_GetPointer(kept.get(), runtime_key)) : nullptr;
    if (shared != made) end_unused_runtime(made);
    return shared;
}

/// Finds the shared part, or makes it. NULL with a Python exception set.
ISTHMUS_NOINLINE inline SharedRuntime* find_shared_runtime() {
    if (!make_interned()) return nullptr;
    PyObject* dict = PyInterpreterState_GetDict(interpreter_life.interpreter.load());  // borrowed
    const Ref known = dict_item(dict, runtime_key);
    return join_runtime(known ? static_cast<SharedRuntime*>(PyCapsule_GetPointer(known.get(), runtime_key))
                              : make_shared_runtime(dict));
}
inline SharedRuntime* shared_runtime() {
    return ISTHMUS_LIKELY(*shared_state != nullptr) ? *shared_state : find_shared_runtime();
}

}  // namespace detail

ISTHMUS_END
