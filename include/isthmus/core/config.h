// The version, the ABI, and the attributes of the compiler that every header uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "Isthmus needs C++20: compile with -std=c++20 or newer"
#endif
#if !defined(__cpp_exceptions)
#error "Isthmus needs exceptions: compile without -fno-exceptions"
#endif

#include <cstddef>
#include <cstdint>

#if UINTPTR_MAX != UINT64_MAX
#error "Isthmus needs a 64-bit system: sizes and strides of 64 bits are used as its own"
#endif

#if !__has_include(<dlpack/dlpack.h>)
#error \
    "Isthmus needs <dlpack/dlpack.h> 1.3 or newer on the include path: 'python -m isthmus --includes' names a folder that has it"
#endif
#include <dlpack/dlpack.h>

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error "Isthmus needs <dlpack/dlpack.h> 1.3 or newer (1.x): an older one was found first on the include path"
#endif

#define ISTHMUS_VERSION_MAJOR 0
#define ISTHMUS_VERSION_MINOR 1
#define ISTHMUS_VERSION_PATCH 0
#define ISTHMUS_VERSION "0.1.0"

/// The layout of what two extensions in one process share (the Python types, the memory block of a tensor).
/// A change of that layout raises it (docs/abi.md says when); extensions with different tags then live side by side, and
/// exchange tensors through DLPack.
#define ISTHMUS_ABI 2
#define ISTHMUS_ABI_NAMESPACE abi2

/// Hides every symbol, whatever flags an extension is compiled with: two extensions in one process may be built from different
/// versions of Isthmus, and the dynamic linker must not merge their symbols.
#define ISTHMUS_BEGIN   \
    namespace isthmus { \
    inline namespace ISTHMUS_ABI_NAMESPACE ISTHMUS_HIDDEN {
#define ISTHMUS_END \
    }               \
    }

#if !defined(__GNUC__) && !defined(__clang__)
#error "Isthmus needs GCC or Clang, for their attributes and builtins: on Windows clang-cl or MinGW in place of cl"
#endif
/// A Windows DLL shows only what it exports, so nothing has to be hidden there.
#if defined(_WIN32)
#define ISTHMUS_HIDDEN
#else
#define ISTHMUS_HIDDEN __attribute__((visibility("hidden")))
#endif
/// Which way a branch nearly always goes. Only for the paths that benchmarks/instructions.json counts; a branch to an
/// ISTHMUS_COLD function needs none, since the compiler already takes it to be unlikely.
#define ISTHMUS_LIKELY(x) __builtin_expect(!!(x), 1)
#define ISTHMUS_UNLIKELY(x) __builtin_expect(!!(x), 0)
/// A function that makes an error: out of line, optimised for size, and the branch that leads to it is the unlikely one.
#define ISTHMUS_COLD __attribute__((cold, noinline))
/// As ISTHMUS_COLD for a function whose definition may be inlined where it is called from one of those (text for errors).
#define ISTHMUS_RARE __attribute__((cold))
/// A function off the fastest paths that does real work: a call of its own, optimised like any other.
#define ISTHMUS_NOINLINE __attribute__((noinline))
/// For the paths whose instructions are counted: inlined even where the compiler would rather call. With -Os the compiler
/// chooses.
#if defined(__OPTIMIZE_SIZE__)
#define ISTHMUS_ALWAYS_INLINE inline
#define ISTHMUS_INLINE_LAMBDA
#else
#define ISTHMUS_ALWAYS_INLINE inline __attribute__((always_inline))
#define ISTHMUS_INLINE_LAMBDA __attribute__((always_inline))
#endif
/// A function whose result refers to the memory, not to the view that it was asked of: GCC warns of a temporary one.
#if __has_cpp_attribute(gnu::no_dangling)
#define ISTHMUS_OUTLIVES [[gnu::no_dangling]]
#else
#define ISTHMUS_OUTLIVES
#endif
/// What must be one symbol in all shared objects of a process: the error class, so that a catch recognises it.
#if defined(_WIN32)
#define ISTHMUS_EXPORT
#else
#define ISTHMUS_EXPORT __attribute__((visibility("default")))
#endif
/// State of one shared object: the dynamic linker must not merge it with another's.
#define ISTHMUS_STATE inline ISTHMUS_HIDDEN

// Definitions stand in src/, compiled once: by a library, or by the one file of a program that defines ISTHMUS_IMPLEMENTATION.
// The compiled library of the package fits one C++ library: ISTHMUS_PREBUILT (of --cflags) is the release of its libstdc++, or
// 0 for libc++.
#if defined(ISTHMUS_PREBUILT)
#if defined(_GLIBCXX_RELEASE)
#if ISTHMUS_PREBUILT == 0
#error "Isthmus's compiled library is of libc++, not libstdc++: define ISTHMUS_IMPLEMENTATION in one .cpp, without --ldflags"
#elif !_GLIBCXX_USE_CXX11_ABI
#error "Isthmus's compiled library has the new std::string: define ISTHMUS_IMPLEMENTATION in one .cpp, without --ldflags"
#elif ISTHMUS_PREBUILT > _GLIBCXX_RELEASE
#error "Isthmus's compiled library is of a newer GCC: define ISTHMUS_IMPLEMENTATION in one .cpp, without --ldflags"
#endif
#elif ISTHMUS_PREBUILT != 0
#error "Isthmus's compiled library is of libstdc++, not libc++: define ISTHMUS_IMPLEMENTATION in one .cpp, without --ldflags"
#endif
#endif
#if defined(ISTHMUS_COMPILED)
#error "ISTHMUS_COMPILED ended: link isthmus::python, or define ISTHMUS_IMPLEMENTATION in one .cpp (docs/install.md)"
#endif

ISTHMUS_BEGIN

/// The most dimensions a tensor may have: NumPy's and PyTorch's own limit.
inline constexpr int max_ndim = 64;

ISTHMUS_END
