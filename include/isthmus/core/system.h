// What an operating system does differently, for the core: threads, forks, waiting, aligned memory, huge pages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdlib>

#include <isthmus/core/config.h>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <pthread.h>
#include <unistd.h>
#endif

#if defined(_WIN32)
// Declared as in windows.h, which would cost every file of a user compile time and defines many common words as macros.
struct _RTL_SRWLOCK;          // NOLINT(bugprone-reserved-identifier)
struct _SECURITY_ATTRIBUTES;  // NOLINT(bugprone-reserved-identifier)
extern "C" {
__declspec(dllimport) void __stdcall AcquireSRWLockExclusive(_RTL_SRWLOCK*);
__declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(_RTL_SRWLOCK*);
__declspec(dllimport) void __stdcall Sleep(unsigned long);
__declspec(dllimport) void* __stdcall CreateThread(_SECURITY_ATTRIBUTES*, std::size_t, unsigned long(__stdcall*)(void*), void*,
                                                   unsigned long, unsigned long*);
__declspec(dllimport) int __stdcall CloseHandle(void*);
}
#endif

ISTHMUS_BEGIN

namespace detail {

/// Defers pthread_cancel while one exists: a release that is cancelled halfway would leak what is left of the owner, and the
/// unwinding would terminate the process at the first noexcept function.
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

#if defined(_WIN32)

[[noreturn]] inline void stop_this_thread() noexcept {
    for (;;) Sleep(0xFFFFFFFFUL);
}
/// Waits for at least so long; Windows counts in milliseconds.
inline void sleep_microseconds(unsigned count) noexcept { Sleep((count + 999) / 1000); }

/// Functions that surround every fork of this process. Windows has no fork.
inline void around_forks(void (*)(), void (*)(), void (*)()) noexcept {}

/// A lock that is ready before any constructor has run and works after every destructor.
class SystemMutex {
public:
    constexpr SystemMutex() noexcept = default;
    SystemMutex(const SystemMutex&) = delete;
    SystemMutex& operator=(const SystemMutex&) = delete;
    void lock() noexcept { AcquireSRWLockExclusive(reinterpret_cast<_RTL_SRWLOCK*>(&lock_)); }
    void unlock() noexcept { ReleaseSRWLockExclusive(reinterpret_cast<_RTL_SRWLOCK*>(&lock_)); }

private:
    void* lock_ = nullptr;  // an SRWLOCK
};

/// Runs `run(argument)` on a detached thread of its own; false if none can be made.
template <void (*run)(void*)>
bool start_thread(void* argument) noexcept {
    const auto entry = [](void* given) -> unsigned long {
        run(given);
        return 0;
    };
    void* thread = CreateThread(nullptr, 0, entry, argument, 0, nullptr);
    if (thread != nullptr) CloseHandle(thread);
    return thread != nullptr;
}

#else

[[noreturn]] inline void stop_this_thread() noexcept {
    for (;;) pause();
}
inline void sleep_microseconds(unsigned count) noexcept { usleep(count); }

/// Functions that surround every fork of this process, each of which may be NULL.
inline void around_forks(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
    (void)pthread_atfork(before, in_parent, in_child);
}

/// A lock that is ready before any constructor has run and works after every destructor.
class SystemMutex {
public:
    constexpr SystemMutex() noexcept = default;
    SystemMutex(const SystemMutex&) = delete;
    SystemMutex& operator=(const SystemMutex&) = delete;
    void lock() noexcept { pthread_mutex_lock(&lock_); }
    void unlock() noexcept { pthread_mutex_unlock(&lock_); }

private:
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Runs `run(argument)` on a detached thread of its own; false if none can be made.
template <void (*run)(void*)>
bool start_thread(void* argument) noexcept {
    const auto entry = [](void* given) -> void* {
        run(given);
        return nullptr;
    };
    pthread_t thread{};
    return pthread_create(&thread, nullptr, entry, argument) == 0 && pthread_detach(thread) == 0;
}

#endif

}  // namespace detail

ISTHMUS_END
