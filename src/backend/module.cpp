// The Python module of a private backend (isthmus_add_backend() in CMake), whose `v1` is its table.
// SPDX-License-Identifier: Apache-2.0
#include "backend.h"  // Python.h must come before any standard header

#define ISTHMUS_INIT_OF(name) PyInit_##name
#define ISTHMUS_INIT(name) ISTHMUS_INIT_OF(name)
#define ISTHMUS_TEXT_OF(name) #name
#define ISTHMUS_TEXT(name) ISTHMUS_TEXT_OF(name)

static int add_table(PyObject* module) {
    const isthmus::Ref capsule(isthmus::backend_capsule());
    return capsule ? PyModule_AddObjectRef(module, "v1", capsule.get()) : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(add_table)},
#if defined(Py_GIL_DISABLED)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 ISTHMUS_TEXT(ISTHMUS_BACKEND_NAME),
                                 "The functions of Isthmus as a table, for the modules of one project.",
                                 0,
                                 nullptr,
                                 slots,
                                 nullptr,
                                 nullptr,
                                 nullptr};

PyMODINIT_FUNC ISTHMUS_INIT(ISTHMUS_BACKEND_NAME)() { return PyModuleDef_Init(&definition); }
