// SPDX-License-Identifier: Apache-2.0
// The extension that pytest drives: the bridge of the headers, seen from Python.
#include "../support/module.h"
#include "ext.h"
#include "src/bridge/runtime/shared_runtime.h"

namespace {

struct PyModuleDef definition{PyModuleDef_HEAD_INIT, "isthmus_test_ext", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_isthmus_test_ext() {
    PyObject* module = create_module(definition);
    if (module == nullptr) return nullptr;
    for (PyMethodDef* methods : {ext::argument_methods, ext::import_methods, ext::keep_methods, ext::thread_methods,
                                 ext::producer_methods, ext::export_methods, ext::export_memory_methods})
        if (PyModule_AddFunctions(module, methods) != 0) return nullptr;
    if (!ext::add_exporter(module) || !ext::add_holder(module) || !ext::add_bare(module)) return nullptr;
#if defined(NDEBUG)
    constexpr int checks_gil = 0;
#else
    constexpr int checks_gil = 1;
#endif
    if (PyModule_AddIntConstant(module, "checks_gil", checks_gil) != 0) return nullptr;
    isthmus::detail::SharedRuntime* shared = isthmus::detail::shared_runtime();
    if (shared == nullptr) return nullptr;
    Py_INCREF(shared->error);
    if (PyModule_AddObject(module, "Error", shared->error) != 0) return nullptr;
    return module;
}
