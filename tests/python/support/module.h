// A module of a test that leaves the GIL off, where CPython can do without one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/// PyModule_Create() of a module that wants no GIL: a new reference; NULL with a Python exception set.
inline PyObject* create_module(PyModuleDef& definition) {
    PyObject* module = PyModule_Create(&definition);
#if defined(Py_GIL_DISABLED)
    if (module != nullptr && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) != 0) Py_CLEAR(module);
#endif
    return module;
}
