// Differences between compilers: attributes, builtins and atomic operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#if !defined(__GNUC__) && !defined(__clang__)
#include "Isthmus needs GCC or Clang, for their attributes and builtins: on Windows clang-cl or MinGW in place of cl"
#endif
/// A Windows DLL shows only what it exports, so nothing has to be hidden there.
#if defined(_WIN32)
#define ISTHMUS_HIDDEN
#else
#define ISTHMUS_HIDDEN __attribute__((visibility("hidden")))
#endif
/// For what must be one symbol in all shared objects of a process: the error class, so that a catch recognises it.
#if defined(_WIN32)
#define ISTHMUS_EXPORT
#else
#define ISTHMUS_EXPORT __attribute__((visibility("default")))
#endif
/// State of one shared object: the dynamic linker must not merge it with another's.
#define ISTHMUS_STATE inline ISTHMUS_HIDDEN
/// The same of each thread, of a few bytes: in the part of a thread's memory that is there from its beginning, since
/// the first use of any other part allocates it, and glibc ends the process if that fails. Only glibc has such a part
/// for what is loaded later, of 1.6 kB for the whole process.
#if defined(__GLIBC__) && defined(__ELF__)
#define ISTHMUS_THREAD_STATE __attribute__((tls_model("initial-exec"))) thread_local
#else
#define ISTHMUS_THREAD_STATE thread_local
#endif
/// Which way a branch nearly always goes. Only for the paths that benchmarks/instructions.json counts; a branch to an
/// ISTHMUS_COLD function needs none, since the compiler already takes it to be unlikely.
#define ISTHMUS_LIKELY(x) __builtin_expect(!!(x), 1)
#define ISTHMUS_UNLIKELY(x) __builtin_expect(!!(x), 0)
/// A function that makes an error: out of line, optimised for size, and the branch that leads to it is the unlikely
/// one.
#if defined(ISTHMUS_BACKEND)  // there it is a call of the backend
#define ISTHMUS_COLD __attribute__((cold))
#else
#define ISTHMUS_COLD __attribute__((cold, noinline))
#endif
/// As ISTHMUS_COLD for a function whose definition may be inlined where it is called from one of those (text for
/// errors).
#define ISTHMUS_RARE __attribute__((cold))
/// A function off the fastest paths that does real work: not inlined, optimised like any other.
#define ISTHMUS_NOINLINE __attribute__((noinline))
/// For the paths whose instructions are counted: inlined even if the compiler would rather call. With -Os the compiler
/// chooses.
#if defined(__OPTIMIZE_SIZE__)
#define ISTHMUS_ALWAYS_INLINE inline
#define ISTHMUS_INLINE_LAMBDA
#else
#define ISTHMUS_ALWAYS_INLINE inline __attribute__((always_inline))
#define ISTHMUS_INLINE_LAMBDA __attribute__((always_inline))
#endif
/// The same with -Os too: for a function that asks about a constant of its caller.
#define ISTHMUS_FOLDED inline __attribute__((always_inline))
/// A function whose body depends on an option of the file that is compiled: as a symbol, the linker would take one
/// file's for that of another, which may have another option.
#define ISTHMUS_OF_THIS_FILE __attribute__((always_inline))
/// A function whose result refers to the memory, not to the view itself: GCC warns of a temporary one.
#if __has_cpp_attribute(gnu::no_dangling)
#define ISTHMUS_OUTLIVES [[gnu::no_dangling]]
#else
#define ISTHMUS_OUTLIVES
#endif
/// As a default argument: the name of the function that calls.
#define ISTHMUS_CALLER __builtin_FUNCTION()
/// Ahead of a loop of so few rounds that all are written out, at every level of optimisation.
#if defined(__clang__)
#define ISTHMUS_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define ISTHMUS_UNROLLED _Pragma("GCC unroll 32")
#endif
/// A type that is a vector of so many bytes, and the words of two vectors in another order, where a compiler has both.
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ISTHMUS_VECTOR(bytes) [[gnu::vector_size(bytes)]]
#define ISTHMUS_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
/// A pointer to memory that no other pointer of the function leads to.
#define ISTHMUS_RESTRICT __restrict__
/// After a call that does not return, of a function that is not declared so.
#define ISTHMUS_UNREACHABLE() __builtin_unreachable()
/// Where the frame of the function that runs is, on the stack: also if a sanitizer keeps its variables elsewhere.
#define ISTHMUS_FRAME_ADDRESS() __builtin_frame_address(0)
/// A function that runs when the shared object is loaded, ahead of the constructors of its static objects.
#define ISTHMUS_WHEN_LOADED __attribute__((constructor(101)))
/// Sets `out` to a + b, or a * b; true if that does not fit, and `out` is what remains of it. No functions: around one
/// more the compiler inlines less.
#define ISTHMUS_ADD_OVERFLOWS(a, b, out) __builtin_add_overflow(a, b, &(out))
#define ISTHMUS_MULTIPLY_OVERFLOWS(a, b, out) __builtin_mul_overflow(a, b, &(out))
/// A class that a function's caller must not ignore. nvcc takes an assignment to an object of one for an ignored
/// result.
#if defined(__CUDACC__)
#define ISTHMUS_NODISCARD
#else
#define ISTHMUS_NODISCARD [[nodiscard]]
#endif

/// The layout of what two extensions in one process share (the Python types, the memory block of a tensor).
/// A change of that layout raises it (docs/abi.md says when); extensions with different tags then live side by side,
/// and exchange tensors through DLPack.
#define ISTHMUS_ABI 2
#define ISTHMUS_ABI_NAMESPACE abi2

/// Hides every symbol, whatever flags an extension is compiled with: two extensions in one process may be built from
/// different versions of Isthmus, and the dynamic linker must not merge their symbols.
#define ISTHMUS_BEGIN   \
    namespace isthmus { \
    inline namespace ISTHMUS_ABI_NAMESPACE ISTHMUS_HIDDEN {
#define ISTHMUS_END \
    }               \
    }

ISTHMUS_BEGIN

namespace detail {

/// Fills the table of the backend (src/backend/backend.cpp).
struct BackendAccess;

/// std::countr_zero of what is not 0, without the instructions that ask.
ISTHMUS_ALWAYS_INLINE constexpr int trailing_zeros(unsigned long long bits) noexcept { return __builtin_ctzll(bits); }

/// A part of std::atomic_ref: atomic operations on a plain member, of CPython's structs too. <atomic> brings a fifth of
/// a file's compile time with it (waiting, and with it the clocks), so the compiler's builtins are used.
template <class T>
class AtomicRef {
    using Value = std::remove_const_t<T>;

public:
    ISTHMUS_ALWAYS_INLINE constexpr explicit AtomicRef(T& place) noexcept : place_(&place) {}

    ISTHMUS_ALWAYS_INLINE Value load_relaxed() const noexcept { return load_as<__ATOMIC_RELAXED>(); }
    ISTHMUS_ALWAYS_INLINE Value load_acquire() const noexcept { return load_as<__ATOMIC_ACQUIRE>(); }
    ISTHMUS_ALWAYS_INLINE Value load() const noexcept { return load_as<__ATOMIC_SEQ_CST>(); }
    ISTHMUS_ALWAYS_INLINE void store_relaxed(Value value) const noexcept {
        __atomic_store(place_, &value, __ATOMIC_RELAXED);
    }
    ISTHMUS_ALWAYS_INLINE void store_release(Value value) const noexcept {
        __atomic_store(place_, &value, __ATOMIC_RELEASE);
    }
    ISTHMUS_ALWAYS_INLINE void store(Value value) const noexcept { __atomic_store(place_, &value, __ATOMIC_SEQ_CST); }
    // These return the value from before.
    ISTHMUS_ALWAYS_INLINE Value exchange(Value value) const noexcept {
        return __atomic_exchange_n(place_, value, __ATOMIC_SEQ_CST);
    }
    ISTHMUS_ALWAYS_INLINE Value fetch_add(Value count) const noexcept {
        return __atomic_fetch_add(place_, count, __ATOMIC_SEQ_CST);
    }
    ISTHMUS_ALWAYS_INLINE Value fetch_sub(Value count) const noexcept {
        return __atomic_fetch_sub(place_, count, __ATOMIC_SEQ_CST);
    }
    ISTHMUS_ALWAYS_INLINE Value fetch_or(Value bits) const noexcept {
        return __atomic_fetch_or(place_, bits, __ATOMIC_SEQ_CST);
    }
    /// Stores `wanted` if the value is still `expected`; otherwise sets `expected` to the value found.
    ISTHMUS_ALWAYS_INLINE bool compare_exchange(Value& expected, Value wanted) const noexcept {
        return __atomic_compare_exchange_n(place_, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    /// Adds owners. Relaxed: whoever adds one already sees what is owned.
    ISTHMUS_ALWAYS_INLINE void retain(Value count = 1) const noexcept {
        __atomic_fetch_add(place_, count, __ATOMIC_RELAXED);
    }
    /// Removes owners; the value from before. Whoever removes the last sees what all others have written.
    ISTHMUS_ALWAYS_INLINE Value release(Value count = 1) const noexcept {
        return __atomic_fetch_sub(place_, count, __ATOMIC_ACQ_REL);
    }

private:
    template <int order>
    ISTHMUS_ALWAYS_INLINE Value load_as() const noexcept {
        Value value;
        __atomic_load(place_, &value, order);
        return value;
    }

    T* place_;
};

/// The same for a member of ours: a count, or a published pointer.
template <class T>
class Atomic {
public:
    constexpr Atomic() noexcept = default;
    constexpr explicit Atomic(T value) noexcept : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load_relaxed() const noexcept { return AtomicRef(value_).load_relaxed(); }
    T load_acquire() const noexcept { return AtomicRef(value_).load_acquire(); }
    T load() const noexcept { return AtomicRef(value_).load(); }
    void store(T value) noexcept { AtomicRef(value_).store(value); }
    void store_relaxed(T value) noexcept { AtomicRef(value_).store_relaxed(value); }
    T fetch_add(T count) noexcept { return AtomicRef(value_).fetch_add(count); }
    T fetch_sub(T count) noexcept { return AtomicRef(value_).fetch_sub(count); }
    bool compare_exchange(T& expected, T wanted) noexcept {
        return AtomicRef(value_).compare_exchange(expected, wanted);
    }
    void retain() noexcept { AtomicRef(value_).retain(); }
    /// Removes an owner; true for the last one.
    bool release() noexcept { return AtomicRef(value_).release() == T{1}; }

private:
    T value_{};
};

}  // namespace detail

ISTHMUS_END
