// Isthmus: zero-copy tensor exchange.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <dlpack/dlpack.h>

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error "Isthmus needs <dlpack/dlpack.h> 1.3 or newer (1.x): an older one was found first on the include path"
#endif

#define ISTHMUS_VERSION_MAJOR 0
#define ISTHMUS_VERSION_MINOR 1
#define ISTHMUS_VERSION_PATCH 0
#define ISTHMUS_VERSION "0.1.0"

/// The layout of what two extensions in one process share (the Python types, the memory block of a tensor).
/// Whoever changes that layout raises it; extensions with different tags then live side by side, and meet through DLPack.
#define ISTHMUS_ABI 1
#define ISTHMUS_ABI_NAMESPACE abi1

#define ISTHMUS_BEGIN   \
    namespace isthmus { \
    inline namespace ISTHMUS_ABI_NAMESPACE {
#define ISTHMUS_END \
    }               \
    }

#if defined(__GNUC__) || defined(__clang__)
#define ISTHMUS_LIKELY(x) __builtin_expect(!!(x), 1)
#define ISTHMUS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ISTHMUS_NOINLINE __attribute__((noinline))
#define ISTHMUS_COLD __attribute__((cold, noinline))
#define ISTHMUS_RARE __attribute__((cold))
#if defined(__OPTIMIZE_SIZE__)  // -Os: the compiler is to choose
#define ISTHMUS_ALWAYS_INLINE inline
#define ISTHMUS_INLINE_LAMBDA
#else
#define ISTHMUS_ALWAYS_INLINE inline __attribute__((always_inline))
#define ISTHMUS_INLINE_LAMBDA __attribute__((always_inline))
#endif
#define ISTHMUS_EXPORT __attribute__((visibility("default")))
// State is private to each shared object: two extensions must not be merged by the dynamic linker.
#define ISTHMUS_STATE inline __attribute__((visibility("hidden")))
#else
#define ISTHMUS_LIKELY(x) (x)
#define ISTHMUS_UNLIKELY(x) (x)
#define ISTHMUS_NOINLINE
#define ISTHMUS_COLD
#define ISTHMUS_RARE
#define ISTHMUS_ALWAYS_INLINE inline
#define ISTHMUS_INLINE_LAMBDA
#define ISTHMUS_EXPORT
#define ISTHMUS_STATE inline
#endif

// Isthmus is header-only by default. A project that defines ISTHMUS_COMPILED everywhere, and compiles isthmus/python/impl.h in
// one file of its own (CMake: isthmus::python_compiled), pays for the bridge's code once instead of in every file.
#if defined(ISTHMUS_COMPILED)
#define ISTHMUS_API
#else
#define ISTHMUS_API inline
#endif
// Whether this file is to hold the definitions too.
#if !defined(ISTHMUS_COMPILED) || defined(ISTHMUS_BUILDING)
#define ISTHMUS_DEFINE 1
#else
#define ISTHMUS_DEFINE 0
#endif

ISTHMUS_BEGIN

/// The most dimensions a tensor may have: NumPy's and PyTorch's own limit.
inline constexpr int max_ndim = 64;

ISTHMUS_END
