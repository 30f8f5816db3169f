// Modules of torch, which are never run a second time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <dlfcn.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether libtorch's Python half is in this process while nobody finds its module, as where a test isolates sys.modules.
ISTHMUS_NOINLINE inline bool is_torch_hidden() {
    if (PyDict_GetItemString(PyImport_GetModuleDict(), "torch._C") != nullptr) return false;
    void* loaded = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
    if (loaded != nullptr) dlclose(loaded);
    return loaded != nullptr;
}

/// import `module`, which is torch or below it: a new reference, or NULL with a Python exception set. While torch is hidden
/// nothing is imported: initialised once more, its C module overwrites the tables that its own methods live in.
inline PyObject* import_torch(const char* module) {
    if (ISTHMUS_LIKELY(!is_torch_hidden())) return PyImport_ImportModule(module);
    PyErr_SetString(PyExc_ImportError, "torch._C is loaded, but was taken out of sys.modules; put it back");
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
