// The hostile producers that only C++ can make, as a module of their own: no library that is tested is in it.
// SPDX-License-Identifier: Apache-2.0
#include "../../tests/python/ext/producers.cpp"

namespace {
PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "reliability_producers",
                       nullptr,
                       -1,
                       ext::producer_methods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};
}

PyMODINIT_FUNC PyInit_reliability_producers() {
    PyObject* module = PyModule_Create(&definition);
    if (module != nullptr && ext::add_exporter(module)) return module;
    Py_XDECREF(module);
    return nullptr;
}
