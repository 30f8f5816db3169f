// pybind11 itself; in a module over the table PYBIND11_MODULE creates no module without a backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#if defined(Py_LIMITED_API)
#include "pybind11 has no limited API: compile with isthmus::backend (ISTHMUS_BACKEND without ISTHMUS_ABI3)"
#endif
#include <pybind11/pybind11.h>

#if defined(ISTHMUS_BACKEND)
#undef PYBIND11_PLUGIN_IMPL
#define PYBIND11_PLUGIN_IMPL(name) ISTHMUS_BACKEND_INIT(name, PYBIND11_EXPORT)
#endif
