// Isthmus: zero-copy tensor exchange. The bridge to Python, over the bare CPython API.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <isthmus/isthmus.h>
#include <isthmus/python/api.h>
#include <isthmus/python/py_owner.h>

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/bridge.h>
#endif

#if defined(ISTHMUS_IMPLEMENTATION)
#if __has_include("src/bridge.cpp")
#include "src/bridge.cpp"  // as installed
#else
#include "../../src/bridge.cpp"
#endif
#endif
