// Modules of torch, which must never be initialised a second time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include "../../../core/libraries.h"
#include <isthmus/python/runtime/lookups.h>

ISTHMUS_BEGIN

namespace detail {

/// torch.Tensor as libtorch keeps it, once torch was imported in this process; borrowed, NULL before.
inline PyTypeObject* torch_class_of_library() noexcept {
    void* library = find_library(ISTHMUS_LIBRARY("torch_python"));
    if (library == nullptr) return nullptr;
    PyTypeObject** kept = nullptr;
    PyTypeObject* type = find_symbol(library, "THPVariableClass", kept) ? *kept : nullptr;
    release_library(library);
    return type;
}

/// Whether torch was imported but its module cannot be found, as where a test isolates sys.modules.
ISTHMUS_NOINLINE inline bool is_torch_hidden() {
    return !dict_item(PyImport_GetModuleDict(), "torch._C") && torch_class_of_library() != nullptr;
}

/// import `module`, which is torch or below it: a new reference, or NULL with a Python exception set. While torch is hidden
/// nothing is imported: a second initialisation of its C module overwrites the tables that its own methods live in.
inline PyObject* import_torch(const char* module) {
    if (ISTHMUS_LIKELY(!is_torch_hidden())) return PyImport_ImportModule(module);
    PyErr_SetString(PyExc_ImportError, "torch was imported, but torch._C was taken out of sys.modules since; put it back");
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
