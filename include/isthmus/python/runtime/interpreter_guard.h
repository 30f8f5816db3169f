// Threads without the GIL that need the interpreter, and its end, which waits for them and refuses the later ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <pthread.h>
#include <unistd.h>

#include <isthmus/core/atomic.h>

ISTHMUS_BEGIN

namespace detail {

/// How many guards are held, and whether the interpreter has ended, so that no more are given.
struct InterpreterUse {
    Atomic<int> guards;
    Atomic<bool> ended;
};
ISTHMUS_STATE InterpreterUse interpreter_use;

/// While one is held the interpreter does not end (the idea is PEP 788's). Without one, a thread that takes the GIL to drop a
/// tensor would be killed where the interpreter ends first. Whoever gets none leaves the reference to the end of the process: a
/// leak of memory that is about to vanish.
class InterpreterGuard {
public:
    InterpreterGuard() noexcept {
        interpreter_use.guards.fetch_add(1);
        held_ = !interpreter_use.ended.load() && Py_IsInitialized() != 0;
        if (!held_) interpreter_use.guards.fetch_sub(1);
    }
    ~InterpreterGuard() {
        if (held_) interpreter_use.guards.fetch_sub(1);
    }
    InterpreterGuard(const InterpreterGuard&) = delete;
    InterpreterGuard& operator=(const InterpreterGuard&) = delete;
    explicit operator bool() const noexcept { return held_; }

private:
    bool held_;
};

/// Before the first guard is taken. A forked child is without the threads that held one, so nobody would ever give it back.
inline void allow_interpreter_guards() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { interpreter_use.guards.store(0); });
    (void)registered;
    interpreter_use.ended.store(false);
}
/// What the interpreter calls before it ends.
inline void wait_for_interpreter_guards() {
    interpreter_use.ended.store(true);
    Py_BEGIN_ALLOW_THREADS while (interpreter_use.guards.load() != 0) usleep(50);
    Py_END_ALLOW_THREADS
}

}  // namespace detail

ISTHMUS_END
