// Calling deleters and other code that is not ours, from functions that must not throw; threads and forks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if __has_include(<bits/cxxabi_forced.h>)
#include <bits/cxxabi_forced.h>
#define ISTHMUS_FORCED_UNWIND 1
#endif

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

[[noreturn]] void stop_this_thread() noexcept;
/// Waits for at least so long; Windows counts in milliseconds.
void sleep_microseconds(unsigned count) noexcept;
/// Functions that surround every fork of this process, each of which may be NULL. Windows has no fork.
void around_forks(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept;

/// Defers pthread_cancel while one exists: a release that is cancelled halfway would leak what is left of the owner,
/// and the unwinding would terminate the process at the first noexcept function.
class NoCancellation {
public:
#if !defined(_WIN32) && defined(PTHREAD_CANCEL_DISABLE)
    NoCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
#else
    NoCancellation() noexcept {}
    ~NoCancellation() {}
#endif
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

private:
    [[maybe_unused]] int before_ = 0;
};

/// Runs code that may end up in a Python interpreter, from a function that must not throw. Before CPython 3.14, a
/// thread that wants the GIL after the interpreter's end is ended by pthread_exit, whose unwinding would terminate the
/// whole process at the first noexcept function. Here the thread is stopped for good instead, as 3.14 does. Wrap only
/// the call itself: a noexcept function or a destructor inside `f` would meet the unwinding first.
template <class F>
ISTHMUS_ALWAYS_INLINE auto surviving_exit(F&& f) noexcept -> decltype(f()) {
#if defined(ISTHMUS_FORCED_UNWIND)
    try {
        return f();
    } catch (__cxxabiv1::__forced_unwind&) {
        stop_this_thread();
    }
#else
    return f();
#endif
}

/// Calls a foreign destructor. Its exceptions are swallowed: deleters are C functions by contract, and no caller could
/// handle it.
template <class F>
ISTHMUS_ALWAYS_INLINE void swallowing(F&& f) noexcept {
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
/// The same for foreign code that may block; cancellation of the thread is deferred until it returns.
template <class F>
ISTHMUS_ALWAYS_INLINE void run_deleter(F&& f) noexcept {
    const NoCancellation whole;
    swallowing(f);
}

/// Calls the release function of one of our own tables, which itself guards what it calls; compiled once.
void run_release(void (*release)(void*), void* owner) noexcept;

}  // namespace detail

ISTHMUS_END
