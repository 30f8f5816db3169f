// The extension module isthmus._isthmus: the types that all extensions share, and the package's own functions.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

#include "../backend/backend.h"

namespace {

bool add(PyObject* module, const char* name, void* object) {
    return PyModule_AddObjectRef(module, name, static_cast<PyObject*>(object)) == 0;
}

bool add_new(PyObject* module, const char* name, PyObject* stolen) {
    const isthmus::Ref object(stolen);
    return stolen != nullptr && PyModule_AddObjectRef(module, name, stolen) == 0;
}

// Of the compiled bridge that the package carries, too; see ISTHMUS_PREBUILT.
#if defined(_GLIBCXX_RELEASE)
constexpr int cxx_library_release = _GLIBCXX_RELEASE;
#else
constexpr int cxx_library_release = 0;
#endif

int fill(PyObject* module) {
    isthmus::detail::SharedRuntime* shared = isthmus::detail::shared_types();
    if (shared == nullptr) return -1;
    for (PyMethodDef* methods : {package::import_methods, package::blob_methods, package::inspect_methods,
                                 package::shared_methods, package::load_methods})
        if (PyModule_AddFunctions(module, methods) != 0) return -1;
    const bool good =
        add(module, "Tensor", shared->tensor) && add(module, "DType", shared->dtype) &&
        add(module, "Device", shared->device) && add(module, "DeviceType", shared->device_type) &&
        add(module, "Error", shared->error) &&
        add(module, "TensorTypeError", shared->error_kinds[static_cast<int>(isthmus::ErrorKind::type)]) &&
        add(module, "TensorValueError", shared->error_kinds[static_cast<int>(isthmus::ErrorKind::value)]) &&
        add(module, "TensorBufferError", shared->error_kinds[static_cast<int>(isthmus::ErrorKind::buffer)]) &&
        add_new(module, "_backend_v1", isthmus::backend_capsule()) &&
        PyModule_AddIntConstant(module, "__cxx_library_release__", cxx_library_release) == 0 &&
        PyModule_AddStringConstant(module, "__version__", ISTHMUS_VERSION) == 0;
    return good ? 0 : -1;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "isthmus._isthmus", "The compiled part of isthmus; use the package.", 0, nullptr, slots};

}  // namespace

PyMODINIT_FUNC PyInit__isthmus() { return PyModuleDef_Init(&definition); }
