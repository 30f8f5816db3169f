// The few atomic operations of a count and a published pointer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

/// The few atomic operations of a count and a published pointer. <atomic> brings a fifth of this header's compile time with it
/// (waiting, and with it the clocks), so the compiler's builtins are used.
template <class T>
class Atomic {
public:
    constexpr Atomic() noexcept = default;
    constexpr explicit Atomic(T value) noexcept : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load_relaxed() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
    T load_acquire() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
    T load() const noexcept { return __atomic_load_n(&value_, __ATOMIC_SEQ_CST); }
    void store(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_SEQ_CST); }
    void store_relaxed(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
    T fetch_add(T count) noexcept { return __atomic_fetch_add(&value_, count, __ATOMIC_SEQ_CST); }
    T fetch_sub(T count) noexcept { return __atomic_fetch_sub(&value_, count, __ATOMIC_SEQ_CST); }
    /// Stores `wanted` if the value is still `expected`; otherwise sets `expected` to the value found.
    bool compare_exchange(T& expected, T wanted) noexcept {
        return __atomic_compare_exchange_n(&value_, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    /// Adds an owner. Relaxed: whoever adds one already sees what is owned.
    void retain() noexcept { __atomic_fetch_add(&value_, T{1}, __ATOMIC_RELAXED); }
    /// Removes an owner; true for the last one, which then sees what all others have written.
    bool release() noexcept { return __atomic_fetch_sub(&value_, T{1}, __ATOMIC_ACQ_REL) == T{1}; }

private:
    T value_{};
};

}  // namespace detail

ISTHMUS_END
