// Calling deleters and other code that is not ours, from functions that must not throw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<bits/cxxabi_forced.h>)
#include <bits/cxxabi_forced.h>
#include <unistd.h>
#define ISTHMUS_FORCED_UNWIND 1
#endif

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

/// Runs code that may end up in a Python interpreter, from a function that must not throw. Before CPython 3.14, a thread that
/// wants the GIL after the interpreter's end is ended by pthread_exit, whose unwinding would terminate the whole process at the
/// first noexcept function. It is stopped for good here instead, as 3.14 does.
template <class F>
ISTHMUS_ALWAYS_INLINE auto surviving_exit(F&& f) noexcept -> decltype(f()) {
#if defined(ISTHMUS_FORCED_UNWIND)
    try {
        return f();
    } catch (__cxxabiv1::__forced_unwind&) {
        for (;;) pause();
    }
#else
    return f();
#endif
}

/// Calls a foreign destructor. What it throws is swallowed: deleters are C by contract, and nobody is left to tell.
template <class F>
ISTHMUS_ALWAYS_INLINE void run_deleter(F&& f) noexcept {
    surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        try {
            f();
#if defined(ISTHMUS_FORCED_UNWIND)
        } catch (__cxxabiv1::__forced_unwind&) {
            throw;
#endif
        } catch (...) {
        }
    });
}

/// The same for a C function and what it takes; compiled once.
ISTHMUS_API void run_release(void (*release)(void*), void* owner) noexcept;
#if ISTHMUS_DEFINE
ISTHMUS_API void run_release(void (*release)(void*), void* owner) noexcept {
    run_deleter([=] { release(owner); });
}
#endif

}  // namespace detail

ISTHMUS_END
