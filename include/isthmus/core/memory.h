// The memory of new tensors: from malloc, from a cache of dropped large tensors, or from a program's own allocator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include <isthmus/core/atomic.h>
#include <isthmus/core/system.h>

ISTHMUS_BEGIN

/// Gives the memory of new tensors in place of malloc (set_allocator()): mimalloc's, a pool, pinned memory of the host. Both
/// functions may be called on any thread, with or without the GIL, and must not throw.
struct Allocator {
    /// `bytes` of memory at a multiple of `alignment`, a power of two from 64 on; NULL where there is none.
    void* (*allocate)(std::size_t bytes, std::size_t alignment, void* context) noexcept;
    /// Takes back what allocate() gave, with the `bytes` that it was asked for.
    void (*release)(void* memory, std::size_t bytes, void* context) noexcept;
    void* context = nullptr;  ///< handed to both
};

/// Has `allocator` give the memory of every tensor that this shared object makes from now on (Tensor::empty, copy_of,
/// contiguous, empty_like of what lies on the host); NULL for the default again. The allocator must live as long as any memory
/// of it: a tensor goes back to the one that it came from. O(1), on any thread.
ISTHMUS_API void set_allocator(const Allocator* allocator) noexcept;

/// How many bytes of dropped tensors this shared object keeps at most, 512 MiB where nothing is said (none under
/// AddressSanitizer), 0 for none; what is beyond goes back at once. Memory from 4 MiB on is kept, and a new tensor of about
/// that size is made of it: it is filled without the faults of fresh pages. What is of 32 MiB and more the system may take when
/// it runs short (madvise(2), MADV_FREE).
ISTHMUS_API void set_cached_memory(std::size_t most) noexcept;

/// Gives kept memory back to the system until at most `keep` bytes are left, those that were dropped last; the number of bytes
/// given back. On any thread.
ISTHMUS_API std::size_t trim(std::size_t keep = 0) noexcept;

namespace detail {

/// Where one tensor's elements lie, and who takes that back.
struct NewMemory {
    const Allocator* allocator;  ///< NULL: malloc's
    void* start;
    std::size_t bytes;
};

/// From how many bytes on memory is worth keeping, and huge pages are asked for.
inline constexpr std::size_t large_memory = std::size_t{1} << 22;

/// Memory whose first multiple of `alignment` has `bytes` behind it; no start where there is none. `bytes` are large, or the
/// program has an allocator.
ISTHMUS_API NewMemory take_memory(std::size_t bytes, std::size_t alignment) noexcept;
ISTHMUS_API void give_memory_back(const NewMemory& memory) noexcept;
/// Whether elements of so many bytes come from take_memory(), rather than from the allocation of their block.
ISTHMUS_API bool has_memory_of_its_own(std::size_t bytes) noexcept;

}  // namespace detail

#if ISTHMUS_DEFINE
namespace detail {

ISTHMUS_STATE constinit Atomic<const Allocator*> allocator{nullptr};

/// From here on the system is told that it may take what is kept. Of less, which lies in small pages mostly, that call costs as
/// much as fresh pages do.
inline constexpr std::size_t worth_telling = std::size_t{1} << 25;

/// AddressSanitizer sees who uses memory that was freed, and nobody who uses memory that is kept.
#if defined(__has_feature)
#define ISTHMUS_HAS_FEATURE(x) __has_feature(x)
#else
#define ISTHMUS_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || ISTHMUS_HAS_FEATURE(address_sanitizer)
inline constexpr std::size_t cached_memory_at_first = 0;
#else
inline constexpr std::size_t cached_memory_at_first = std::size_t{512} << 20;
#endif
#undef ISTHMUS_HAS_FEATURE

/// Large memory that was dropped, the oldest first. Who finds another thread at it goes to the system, as if it were empty:
/// nobody waits, and a child of fork() that inherits it locked does without.
class MemoryCache {
public:
    /// What fits best and wastes no more than a quarter; no start where nothing does.
    NewMemory take(std::size_t bytes) noexcept {
        const Turn turn(taken_);
        NewMemory found{};
        if (!turn) return found;
        int best = count_;
        for (int i = 0; i < count_; ++i)
            if (kept_[i].bytes >= bytes && kept_[i].bytes <= bytes + bytes / 4 &&
                (best == count_ || kept_[i].bytes < kept_[best].bytes))
                best = i;
        if (best == count_) return found;
        found = kept_[best];
        remove(best);
        return found;
    }
    /// False where it does not keep it.
    bool put(const NewMemory& memory) noexcept {
        const Turn turn(taken_);
        const std::size_t most = most_.load_relaxed();
        if (!turn || memory.bytes > most) return false;
        if (memory.bytes >= worth_telling) let_system_take(memory.start, memory.bytes);
        (void)shrink(most - memory.bytes);
        if (count_ == room) drop_oldest();
        kept_[count_++] = memory;
        bytes_ += memory.bytes;
        return true;
    }
    std::size_t trim(std::size_t keep) noexcept {
        const Turn turn(taken_);
        return turn ? shrink(keep) : 0;
    }
    void set_most(std::size_t most) noexcept {
        most_.store(most);
        (void)trim(most);
    }

private:
    static constexpr int room = 16;

    class Turn {
    public:
        explicit Turn(Atomic<int>& taken) noexcept : taken_(taken) {
            int free = 0;
            mine_ = taken.compare_exchange(free, 1);
        }
        ~Turn() {
            if (mine_) taken_.store(0);
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        explicit operator bool() const noexcept { return mine_; }

    private:
        Atomic<int>& taken_;
        bool mine_ = false;
    };

    std::size_t shrink(std::size_t keep) noexcept {
        const std::size_t before = bytes_;
        while (bytes_ > keep) drop_oldest();
        return before - bytes_;
    }
    void drop_oldest() noexcept {
        void* oldest = kept_[0].start;
        remove(0);
        std::free(oldest);
    }
    void remove(int at) noexcept {
        bytes_ -= kept_[at].bytes;
        for (--count_; at < count_; ++at) kept_[at] = kept_[at + 1];
    }

    Atomic<int> taken_;
    Atomic<std::size_t> most_{cached_memory_at_first};
    NewMemory kept_[room]{};
    int count_ = 0;
    std::size_t bytes_ = 0;
};
ISTHMUS_STATE constinit MemoryCache memory_cache;

ISTHMUS_API bool has_memory_of_its_own(std::size_t bytes) noexcept {
    return ISTHMUS_UNLIKELY(bytes >= large_memory) || (ISTHMUS_UNLIKELY(allocator.load_relaxed() != nullptr) && bytes > 0);
}

ISTHMUS_API NewMemory take_memory(std::size_t bytes, std::size_t alignment) noexcept {
    if (const Allocator* given = allocator.load_acquire())
        return {given, given->allocate(bytes, alignment, given->context), bytes};
    const std::size_t all = bytes + alignment - 1;
    NewMemory memory = memory_cache.take(all);
    if (memory.start != nullptr) return memory;
    memory = {nullptr, std::malloc(all), all};
    if (memory.start != nullptr) prefer_huge_pages(memory.start, memory.bytes);
    return memory;
}

ISTHMUS_API void give_memory_back(const NewMemory& memory) noexcept {
    if (memory.allocator != nullptr) return memory.allocator->release(memory.start, memory.bytes, memory.allocator->context);
    if (!memory_cache.put(memory)) std::free(memory.start);
}

}  // namespace detail

ISTHMUS_API void set_allocator(const Allocator* allocator) noexcept { detail::allocator.store(allocator); }
ISTHMUS_API void set_cached_memory(std::size_t most) noexcept { detail::memory_cache.set_most(most); }
ISTHMUS_API std::size_t trim(std::size_t keep) noexcept { return detail::memory_cache.trim(keep); }
#endif

ISTHMUS_END
