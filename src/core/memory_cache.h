// The cache of dropped large tensors, and its advice to the system about their pages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <isthmus/core/deleter.h>

#include "memory.h"

ISTHMUS_BEGIN

namespace detail {

/// Tells the system something about the whole pages of some memory. Only a hint: a refusal is not an error.
inline void advise_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size,
                         [[maybe_unused]] int wish) noexcept {
#if defined(__linux__)
    const int before = errno;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)),
               start = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t first = (start + page - 1) & ~(page - 1), end = (start + size) & ~(page - 1);
    if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, wish);
    errno = before;
#endif
}
/// Asks for huge pages, as NumPy does for its own memory (numpy/_core/src/multiarray/alloc.cpp): fresh memory is then
/// filled in a fraction of the time.
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) noexcept {
#if defined(MADV_HUGEPAGE)
    advise_pages(memory, size, MADV_HUGEPAGE);
#endif
}
/// Lets the system take the pages when it runs short; until then they keep their contents, and writing to a page keeps
/// it.
inline void let_system_take([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) noexcept {
#if defined(__linux__) && defined(MADV_FREE)
    advise_pages(memory, size, MADV_FREE);
#endif
}

/// From here on the system may reclaim kept memory. For less, which is mostly in small pages, that call costs as
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

/// Large memory that was dropped, the oldest first. A tensor that finds another thread at it goes to the system, as if
/// it were empty, and does not wait. What sets or asks for a limit waits: the limit holds when the call is over.
class MemoryCache {
public:
    /// The block that fits best and wastes no more than a quarter; no start if none does.
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
    /// False if it does not keep it.
    bool put(const NewMemory& memory) noexcept {
        const Turn turn(taken_);
        const std::size_t most = most_.load_relaxed();  // in turn: after set_most() no thread keeps more
        if (!turn || memory.bytes > most) return false;
        if (memory.bytes >= worth_telling) let_system_take(memory.start, memory.bytes);
        (void)shrink(most - memory.bytes);
        if (count_ == room) drop_oldest();
        kept_[count_++] = memory;
        bytes_ += memory.bytes;
        return true;
    }
    std::size_t trim(std::size_t keep) noexcept {
        const Turn turn(taken_, patience);
        return turn ? shrink(keep) : 0;
    }
    void set_most(std::size_t most) noexcept {
        most_.store(most);
        (void)trim(most);
    }

    /// When this code is unloaded, with nobody left to use what is kept. Does not wait: it may be the process that
    /// ends.
    void end() noexcept {
        const Turn turn(taken_);
        if (turn) (void)shrink(0);
    }

    /// Around a fork: the child inherits the cache in nobody's turn.
    void before_fork() noexcept {
        if (take_turn(taken_, patience)) forks_ = true;
    }
    void after_fork() noexcept {
        if (forks_) {
            forks_ = false;
            taken_.store(0);
        }
    }

private:
    static constexpr int room = 16;
    /// Longer than anybody's turn takes. A child that was made without fork()'s handlers may inherit the cache taken.
    static constexpr int patience = 40'000;

    static bool take_turn(Atomic<int>& taken, int tries) noexcept {
        for (;; --tries) {
            int free = 0;
            if (taken.compare_exchange(free, 1)) return true;
            if (tries == 0) return false;
            const NoCancellation whole;
            sleep_microseconds(50);
        }
    }
    class Turn {
    public:
        explicit Turn(Atomic<int>& taken, int tries = 0) noexcept : taken_(taken), mine_(take_turn(taken, tries)) {}
        ~Turn() {
            if (mine_) taken_.store(0);
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        explicit operator bool() const noexcept { return mine_; }

    private:
        Atomic<int>& taken_;
        bool mine_;
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
    bool forks_ = false;  // the turn is that of the thread that forks
    Atomic<std::size_t> most_{cached_memory_at_first};
    NewMemory kept_[room]{};
    int count_ = 0;
    std::size_t bytes_ = 0;
};
}  // namespace detail

ISTHMUS_END
