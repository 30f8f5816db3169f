// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/config.h>

#if !defined(__GNUC__)
#include <atomic>
#endif

ISTHMUS_BEGIN

namespace detail {

/// The few atomic operations of a count and a published pointer. <atomic> brings a fifth of this header's compile time with it
/// (waiting, and with it the clocks), so that it is used only where the compiler has no builtins.
template <class T>
class Atomic {
public:
    constexpr Atomic() noexcept = default;
    constexpr explicit Atomic(T value) noexcept : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

#if defined(__GNUC__)
    T load_relaxed() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
    T load_acquire() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
    T load() const noexcept { return __atomic_load_n(&value_, __ATOMIC_SEQ_CST); }
    void store(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_SEQ_CST); }
    T fetch_add(T count) noexcept { return __atomic_fetch_add(&value_, count, __ATOMIC_SEQ_CST); }
    T fetch_sub(T count) noexcept { return __atomic_fetch_sub(&value_, count, __ATOMIC_SEQ_CST); }
    /// One more owner: what it owns was visible already.
    void retain() noexcept { __atomic_fetch_add(&value_, T{1}, __ATOMIC_RELAXED); }
    /// One owner less; true for the last, which then sees what every other has written.
    bool release() noexcept { return __atomic_fetch_sub(&value_, T{1}, __ATOMIC_ACQ_REL) == T{1}; }

private:
    T value_{};
#else
    T load_relaxed() const noexcept { return value_.load(std::memory_order_relaxed); }
    T load_acquire() const noexcept { return value_.load(std::memory_order_acquire); }
    T load() const noexcept { return value_.load(); }
    void store(T value) noexcept { value_.store(value); }
    T fetch_add(T count) noexcept { return value_.fetch_add(count); }
    T fetch_sub(T count) noexcept { return value_.fetch_sub(count); }
    void retain() noexcept { value_.fetch_add(T{1}, std::memory_order_relaxed); }
    bool release() noexcept { return value_.fetch_sub(T{1}, std::memory_order_acq_rel) == T{1}; }

private:
    std::atomic<T> value_{};
#endif
};

}  // namespace detail

ISTHMUS_END
