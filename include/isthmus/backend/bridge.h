// The functions of <isthmus/python.h> in a module of the stable ABI, and how the module finds the backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/backend/captured.h>
#include <isthmus/backend/core.h>
#include <isthmus/python/py_owner.h>

/// The module that gives the table out: the package's, or the private one of a project (isthmus_add_backend()).
#if !defined(ISTHMUS_BACKEND_MODULE)
#define ISTHMUS_BACKEND_MODULE "isthmus._backend"
#endif

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_BRIDGE)

ISTHMUS_BEGIN

#if defined(Py_LIMITED_API)
inline PyThreadState* holding_thread_state() noexcept { return detail::backend::thread_state(); }
#endif

namespace detail {

/// An ImportError that says what to install; the exception that is set becomes its cause. An interrupt stays.
ISTHMUS_COLD inline void raise_no_backend(const char* text) {
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0) return;
    PyObject *type = nullptr, *cause = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &cause, &trace);
    PyErr_NormalizeException(&type, &cause, &trace);
    PyErr_SetString(PyExc_ImportError, text);
    if (cause != nullptr) {
        PyObject *new_type = nullptr, *value = nullptr, *new_trace = nullptr;
        PyErr_Fetch(&new_type, &value, &new_trace);
        PyErr_NormalizeException(&new_type, &value, &new_trace);
        PyException_SetCause(value, cause);
        PyErr_Restore(new_type, value, new_trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
}

/// Fetches the table; with an exception set if there is none that this module can use.
ISTHMUS_COLD inline void find_backend() {
    constexpr std::uint32_t needed = ISTHMUS_BACKEND_COUNT;
    PyObject* module = PyImport_ImportModule(ISTHMUS_BACKEND_MODULE);
    PyObject* capsule = module != nullptr ? PyObject_GetAttrString(module, "v1") : nullptr;
    Py_XDECREF(module);
    const auto* table = capsule == nullptr
                            ? nullptr
                            : static_cast<const BackendTable*>(PyCapsule_GetPointer(capsule, "isthmus._backend.v1"));
    Py_XDECREF(capsule);
    if (table == nullptr)
        return raise_no_backend("this module needs the package isthmus " ISTHMUS_VERSION
                                " or newer, and " ISTHMUS_BACKEND_MODULE
                                " cannot be imported: pip install 'isthmus>=" ISTHMUS_VERSION "'");
    if (table->count < needed) {
        PyErr_Format(PyExc_ImportError,
                     "found isthmus %s with %d functions; this module needs isthmus " ISTHMUS_VERSION
                     " or newer, with %d: pip install --upgrade 'isthmus>=" ISTHMUS_VERSION "'",
                     table->version_text, static_cast<int>(table->count), static_cast<int>(needed));
        return;
    }
    backend_table = table;
}

/// Runs when the shared object is loaded, ahead of its constructors of static objects. An exception stays set, and the
/// creation of the module returns it to the import that loads it (the macros below).
ISTHMUS_WHEN_LOADED static void find_backend_when_loaded() {
    if (backend_table != nullptr || Py_IsInitialized() == 0) return;
    const PyGILState_STATE gil = PyGILState_Ensure();
    if (PyErr_Occurred() == nullptr) find_backend();
    PyGILState_Release(gil);
}

/// Whether the module may be created; else with the exception set. Looks again if an earlier import found no backend.
ISTHMUS_COLD inline bool have_backend() {
    if (backend_table == nullptr && PyErr_Occurred() == nullptr) find_backend();
    return backend_table != nullptr;
}
inline PyObject* create_module(PyModuleDef* definition, int version) {
    return have_backend() ? PyModule_Create2(definition, version) : nullptr;
}
inline PyObject* init_module(PyModuleDef* definition) {
    return have_backend() ? PyModuleDef_Init(definition) : nullptr;
}

}  // namespace detail

ISTHMUS_END

// The module's init function returns NULL, with the ImportError set, if no backend was found.
#define PyModule_Create2(definition, version) ::isthmus::detail::create_module(definition, version)
#define PyModuleDef_Init(definition) ::isthmus::detail::init_module(definition)

/// The same of a binder's macro: the head of a module's init function, behind which the binder writes the body.
#define ISTHMUS_BACKEND_INIT(name, exported)                                                                  \
    static PyObject* isthmus_init_##name();                                                                   \
    extern "C" exported PyObject* PyInit_##name();                                                            \
    PyObject* PyInit_##name() { return ::isthmus::detail::have_backend() ? isthmus_init_##name() : nullptr; } \
    static PyObject* isthmus_init_##name()
