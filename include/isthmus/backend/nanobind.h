// nanobind itself; in a module over the table NB_MODULE creates no module without a backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#if defined(ISTHMUS_ABI3) && !defined(NB_BACKEND_MODULE) && Py_LIMITED_API + 0 < 0x030C0000
#include "nanobind has the limited API of CPython 3.10 in split mode alone: nanobind_add_module() with BACKEND_MODULE"
#endif
#include <nanobind/nanobind.h>

#if defined(ISTHMUS_BACKEND) && NB_VERSION_MAJOR >= 3
namespace NB_NAMESPACE {
namespace detail {

inline bool isthmus_backend_init(const char* extension) noexcept {
    return isthmus::detail::have_backend() && nb_backend_init(extension);
}

}  // namespace detail
}  // namespace NB_NAMESPACE

#define nb_backend_init(extension) isthmus_backend_init(extension)
#elif defined(ISTHMUS_BACKEND) && NB_VERSION_MINOR == 7  // newer ones call PyModuleDef_Init in the module's own file
#undef NB_MODULE_IMPL
#define NB_MODULE_IMPL(name) ISTHMUS_BACKEND_INIT(name, NB_EXPORT)
#endif
