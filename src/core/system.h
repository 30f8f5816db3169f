// Differences between operating systems, for the core: threads and locks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
__declspec(dllimport) void* __stdcall CreateThread(_SECURITY_ATTRIBUTES*, std::size_t, unsigned long(__stdcall*)(void*),
                                                   void*, unsigned long, unsigned long*);
__declspec(dllimport) int __stdcall CloseHandle(void*);
}
#endif

ISTHMUS_BEGIN

namespace detail {

#if defined(_WIN32)

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

/// Runs `run(argument)` on a new detached thread; false if none can be made.
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

/// Runs `run(argument)` on a new detached thread; false if none can be made.
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
