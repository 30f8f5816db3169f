// The version and the ABI, for every header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A text that is included ends the compiler's run, which an #error does not: nothing that follows from it is told too.
#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#include "Isthmus needs C++20: compile with -std=c++20 or newer"
#endif
#if !defined(__cpp_exceptions)
#include "Isthmus needs exceptions: compile without -fno-exceptions"
#endif

#include <cstddef>
#include <cstdint>

#if UINTPTR_MAX != UINT64_MAX
#include "Isthmus needs a 64-bit system: sizes and strides of 64 bits are used as its own"
#endif

#if !__has_include(<dlpack/dlpack.h>)
#include "Isthmus needs <dlpack/dlpack.h> 1.3 or newer: 'python -m isthmus --includes' names a folder that has it"
#endif
#include <dlpack/dlpack.h>

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#include "Isthmus needs <dlpack/dlpack.h> 1.3 or newer (1.x): an older one was found first on the include path"
#endif

#define ISTHMUS_VERSION_MAJOR 0
#define ISTHMUS_VERSION_MINOR 1
#define ISTHMUS_VERSION_PATCH 0
#define ISTHMUS_VERSION "0.1.0"

#include <isthmus/core/compiler.h>

// Definitions stand in src/, compiled once: by a library, or by the one file of a program that defines
// ISTHMUS_IMPLEMENTATION. The compiled library of the package fits one C++ library: ISTHMUS_PREBUILT (of --cflags) is
// the release of its libstdc++, or 0 for libc++.
#if defined(ISTHMUS_PREBUILT)
#if defined(_GLIBCXX_RELEASE)
#if ISTHMUS_PREBUILT == 0
#include "The library of --ldflags is of libc++, not libstdc++: define ISTHMUS_IMPLEMENTATION in one .cpp instead"
#elif !_GLIBCXX_USE_CXX11_ABI
#include "The library of --ldflags has the new std::string: define ISTHMUS_IMPLEMENTATION in one .cpp instead"
#elif ISTHMUS_PREBUILT > _GLIBCXX_RELEASE
#include "The library of --ldflags is of a newer GCC: define ISTHMUS_IMPLEMENTATION in one .cpp instead"
#endif
#elif ISTHMUS_PREBUILT != 0
#include "The library of --ldflags is of libstdc++, not libc++: define ISTHMUS_IMPLEMENTATION in one .cpp instead"
#endif
#endif
#if defined(ISTHMUS_COMPILED)
#include "ISTHMUS_COMPILED ended: link isthmus::python, or define ISTHMUS_IMPLEMENTATION in one .cpp (docs/install.md)"
#endif

ISTHMUS_BEGIN

/// The most dimensions a tensor may have: NumPy's and PyTorch's own limit.
inline constexpr int max_ndim = 64;

ISTHMUS_END
