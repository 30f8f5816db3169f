// Threads without the GIL that need the interpreter, and its end, which waits for them and refuses the later ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/atomic.h>
#include <isthmus/core/system.h>

ISTHMUS_BEGIN

namespace detail {

/// How many guards are held, and whether the interpreter has ended, so that no more are given.
struct InterpreterUse {
    /// The upper half numbers the processes and lives that there were: a guard of an earlier one, which a forked child has
    /// inherited or a thread stopped for good still holds, is not counted and not given back. The lower half counts.
    Atomic<std::uint64_t> guards;
    Atomic<bool> ended;

    static constexpr std::uint64_t era = std::uint64_t{1} << 32;

    void begin_era() noexcept { guards.store((guards.load() / era + 1) * era); }
    bool is_idle() const noexcept { return guards.load() % era == 0; }
};
ISTHMUS_STATE InterpreterUse interpreter_use;

/// While one is held the interpreter does not end (the idea is PEP 788's), or not for a while: see
/// wait_for_interpreter_guards(). Without one, a thread that takes the GIL to drop a tensor would be stopped where the
/// interpreter ends first. Whoever gets none leaves the reference to the end of the process: a leak of memory that is about to
/// vanish.
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

/// Before the first guard is taken in a life.
inline void allow_interpreter_guards() {
    // A forked child is without the threads that held one.
    static const bool registered = (around_forks(nullptr, nullptr, [] { interpreter_use.begin_era(); }), true);
    (void)registered;
    interpreter_use.begin_era();
    interpreter_use.ended.store(false);
}

/// What the interpreter calls before it ends. The wait is bounded: a finalizer may itself wait for what the interpreter does
/// later in its end. Its thread is then stopped when it wants the GIL, as a daemon thread is.
inline void wait_for_interpreter_guards() {
    constexpr int wait_ms = 2000;
    interpreter_use.ended.store(true);
    Py_BEGIN_ALLOW_THREADS for (int i = 0; i < wait_ms * 20 && !interpreter_use.is_idle(); ++i) sleep_microseconds(50);
    Py_END_ALLOW_THREADS
}

}  // namespace detail

ISTHMUS_END
