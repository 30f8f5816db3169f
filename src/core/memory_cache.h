// The cache of dropped large tensors, and its advice to the system about their pages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
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

/// Large memory that was dropped, however many pieces of it. A tensor that finds another thread at it goes to the
/// system, as if it were empty, and does not wait. What sets or asks for a limit waits: the limit holds when the call
/// is over.
class MemoryCache {
public:
    /// A piece that wastes no more than a quarter: the newest of just this size, else the best among a few. No start if
    /// there is none.
    NewMemory take(std::size_t bytes) noexcept {
        const Turn turn(taken_);
        if (!turn || count_ == 0) return {};
        const std::size_t most = bytes + bytes / 4;
        int best = none;
        for (std::size_t size = class_of(bytes); size <= class_of(most) && (best == none || size == class_of(bytes));
             ++size) {
            int tries = 16;
            for (int at = newest_of_[size]; at != none && tries > 0; at = pieces_[at].older_of_class, --tries) {
                const std::size_t found = pieces_[at].memory.bytes;
                if (found < bytes || found > most) continue;
                if (best == none || found < pieces_[best].memory.bytes) best = at;
                if (found == bytes) return remove(best);
            }
        }
        return best != none ? remove(best) : NewMemory{};
    }
    /// False if it does not keep it.
    bool put(const NewMemory& memory) noexcept {
        const Turn turn(taken_);
        const std::size_t most = most_.load_relaxed();  // in turn: after set_most() no thread keeps more
        if (!turn || memory.bytes > most || !make_room()) return false;
        if (memory.bytes >= worth_telling) let_system_take(memory.start, memory.bytes);
        (void)shrink(most - memory.bytes);
        add(memory);
        return true;
    }
    std::size_t trim(std::size_t keep) noexcept {
        const Turn turn(taken_, patience);
        return turn ? empty_to(keep) : 0;
    }
    void set_most(std::size_t most) noexcept {
        most_.store(most);
        (void)trim(most);
    }

    /// When this code is unloaded, with nobody left to use what is kept. Does not wait: it may be the process that
    /// ends.
    void end() noexcept {
        const Turn turn(taken_);
        if (turn) (void)empty_to(0);
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
    static constexpr int none = -1;
    /// Four between a power of two and the next.
    static constexpr std::size_t class_count = std::size_t{4} * 64;
    static std::size_t class_of(std::size_t bytes) noexcept {
        const auto power = static_cast<std::size_t>(std::bit_width(bytes | 4)) - 1;
        return 4 * power + (bytes >> (power - 2) & 3);
    }

    /// In two lists, each by age: that of all pieces, and that of its class. A free place is in the first alone.
    struct Piece {
        NewMemory memory;
        int older, newer;
        int older_of_class, newer_of_class;
    };
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
        while (bytes_ > keep) std::free(remove(oldest_).start);
        return before - bytes_;
    }
    /// The same, and the places with the last piece.
    std::size_t empty_to(std::size_t keep) noexcept {
        const std::size_t released = shrink(keep);
        if (count_ == 0) {
            std::free(static_cast<void*>(pieces_));
            pieces_ = nullptr;
            room_ = 0;
            free_ = none;
        }
        return released;
    }
    /// A free place for one more piece; false when memory is out.
    bool make_room() noexcept {
        if (free_ != none) return true;
        const int room = room_ != 0 ? 2 * room_ : 32;
        auto* grown = static_cast<Piece*>(
            std::realloc(static_cast<void*>(pieces_), static_cast<std::size_t>(room) * sizeof(Piece)));
        if (grown == nullptr) return false;
        pieces_ = grown;
        for (; room_ < room; ++room_) {
            pieces_[room_].older = free_;
            free_ = room_;
        }
        return true;
    }
    void add(const NewMemory& memory) noexcept {
        const int at = free_;
        Piece& piece = pieces_[at];
        free_ = piece.older;
        int& newest_of_class = newest_of_[class_of(memory.bytes)];
        piece = {memory, newest_, none, newest_of_class, none};
        if (newest_of_class != none) pieces_[newest_of_class].newer_of_class = at;
        newest_of_class = at;
        (newest_ != none ? pieces_[newest_].newer : oldest_) = at;
        newest_ = at;
        bytes_ += memory.bytes;
        ++count_;
    }
    NewMemory remove(int at) noexcept {
        Piece& piece = pieces_[at];
        (piece.newer != none ? pieces_[piece.newer].older : newest_) = piece.older;
        (piece.older != none ? pieces_[piece.older].newer : oldest_) = piece.newer;
        (piece.newer_of_class != none ? pieces_[piece.newer_of_class].older_of_class
                                      : newest_of_[class_of(piece.memory.bytes)]) = piece.older_of_class;
        if (piece.older_of_class != none) pieces_[piece.older_of_class].newer_of_class = piece.newer_of_class;
        piece.older = free_;
        free_ = at;
        bytes_ -= piece.memory.bytes;
        --count_;
        return piece.memory;
    }

    Atomic<int> taken_;
    bool forks_ = false;  // the turn is that of the thread that forks
    Atomic<std::size_t> most_{cached_memory_at_first};
    Piece* pieces_ = nullptr;
    int room_ = 0, count_ = 0;
    int free_ = none, oldest_ = none, newest_ = none;
    std::size_t bytes_ = 0;
    std::array<int, class_count> newest_of_ = [] {
        std::array<int, class_count> empty{};
        empty.fill(none);
        return empty;
    }();
};
}  // namespace detail

ISTHMUS_END
