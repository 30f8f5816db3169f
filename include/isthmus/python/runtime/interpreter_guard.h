// Guards of threads without the GIL that need the interpreter: its end waits for them, and gives out no new ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/compiler.h>
#include <isthmus/core/system.h>

ISTHMUS_BEGIN

namespace detail {

/// How many guards are held, and whether the interpreter has ended and gives out no more.
struct InterpreterUse {
    /// The upper half numbers the processes and lives so far: a guard of an earlier one, which a forked child has inherited or
    /// a thread stopped for good still holds, is neither counted nor given back. The lower half is the count.
    Atomic<std::uint64_t> guards;
    Atomic<bool> ended;

    static constexpr std::uint64_t era = std::uint64_t{1} << 32;

    void begin_era() noexcept { guards.store((guards.load() / era + 1) * era); }
    bool is_idle() const noexcept { return guards.load() % era == 0; }
};
ISTHMUS_STATE InterpreterUse interpreter_use;

/// While one is held the interpreter does not end (the idea is PEP 788's), or only after a limited wait: see
/// wait_for_interpreter_guards(). Without one, a thread that takes the GIL to drop a tensor would be stopped if the interpreter
/// ended first. A thread that gets none leaks the reference, shortly before the process ends anyway.
class InterpreterGuard {
public:
    InterpreterGuard() noexcept : era_(interpreter_use.guards.fetch_add(1) / InterpreterUse::era) {
        held_ = !interpreter_use.ended.load() && Py_IsInitialized() != 0;
        if (!held_) give_back();
    }
    ~InterpreterGuard() {
        if (held_) give_back();
    }
    InterpreterGuard(const InterpreterGuard&) = delete;
    InterpreterGuard& operator=(const InterpreterGuard&) = delete;
    explicit operator bool() const noexcept { return held_; }

private:
    void give_back() const noexcept {
        std::uint64_t now = interpreter_use.guards.load();
        while (now / InterpreterUse::era == era_ && !interpreter_use.guards.compare_exchange(now, now - 1)) continue;
    }
    std::uint64_t era_;
    bool held_;
};

/// Call before the first guard of a life is taken.
inline void allow_interpreter_guards() {
    // The threads that held a guard do not exist in a forked child.
    static const bool registered = (around_forks(nullptr, nullptr, [] { interpreter_use.begin_era(); }), true);
    (void)registered;
    interpreter_use.begin_era();
    interpreter_use.ended.store(false);
}

/// Called by the interpreter before it ends. The wait is limited: a finalizer may itself wait for something that the
/// interpreter does later in its end. The finalizer's thread is then stopped when it wants the GIL, as a daemon thread is.
inline void wait_for_interpreter_guards() {
    constexpr int wait_ms = 2000;
    interpreter_use.ended.store(true);
    Py_BEGIN_ALLOW_THREADS for (int i = 0; i < wait_ms * 20 && !interpreter_use.is_idle(); ++i) sleep_microseconds(50);
    Py_END_ALLOW_THREADS
}

}  // namespace detail

ISTHMUS_END
