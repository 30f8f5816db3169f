// The cache of classified types: an entry for every state of a type, found by the type's address.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include <cstdlib>
#include <cstring>

#include "../protocol/import_request.h"

#if defined(Py_GIL_DISABLED)
#include <type_traits>
#include <utility>
#endif

ISTHMUS_BEGIN

namespace detail {

/// CPython's version tag of this type; 0 if it has none.
inline unsigned int version_of(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX < 0x030B0000  // which keeps the number of a tag that it takes back
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return load_shared(type->tp_version_tag);
}

/// The upper bits of the product: each depends on all bits of the address, whose lowest are the same for all types.
template <int bits>
constexpr std::size_t hash_of_type(std::uintptr_t address) noexcept {
    return static_cast<std::size_t>(std::uint64_t{address} * 0x9E3779B97F4A7C15U >> (64 - bits));
}
template <int bits>
std::size_t hash_of_type(const PyTypeObject* type) noexcept {
    return hash_of_type<bits>(reinterpret_cast<std::uintptr_t>(type));
}

#if defined(Py_GIL_DISABLED)

/// Read by any number of threads without a lock, and written by one: an entry is copied word by word, and the copy
/// counts only if no thread wrote meanwhile, by the number of writes (it is odd during one).
class TypeSlot {
public:
    ISTHMUS_ALWAYS_INLINE bool find(PyTypeObject* type, ProducerType& out) const noexcept {
        const std::uint32_t writes = load_shared(writes_);
        copy(words_, out, std::make_index_sequence<word_count>());
        if (ISTHMUS_UNLIKELY(writes % 2 != 0 || AtomicRef(writes_).load_relaxed() != writes)) return false;
        return out.type == type && out.version == version_of(type);
    }
    /// False, and nothing done, while another thread writes. `before` is the entry that was here.
    bool replace(const ProducerType& entry, ProducerType& before) noexcept {
        std::uint32_t writes = load_shared(writes_);
        if (writes % 2 != 0 || !AtomicRef(writes_).compare_exchange(writes, writes + 1)) return false;
        copy(words_, before, std::make_index_sequence<word_count>());
        Words words{};
        std::memcpy(words.of, &entry, sizeof entry);
        for (std::size_t i = 0; i < word_count; ++i) store_shared(words_.of[i], words.of[i]);
        store_shared(writes_, writes + 2);
        return true;
    }

private:
    static_assert(std::is_trivially_copyable_v<ProducerType> && sizeof(ProducerType) % sizeof(std::uint64_t) == 0);
    static constexpr std::size_t word_count = sizeof(ProducerType) / sizeof(std::uint64_t);
    struct Words {
        std::uint64_t of[word_count];
    };
    /// Word after word: a loop over them takes three times the instructions.
    template <std::size_t... i>
    ISTHMUS_ALWAYS_INLINE static void copy(const Words& words, ProducerType& out, std::index_sequence<i...>) noexcept {
        const std::uint64_t copied[] = {load_shared(words.of[i])...};
        std::memcpy(static_cast<void*>(&out), copied, sizeof copied);
    }
    alignas(64) Words words_{};
    std::uint32_t writes_ = 0;
};

/// The place to which cached_type() copies an entry, since other threads may write it.
union TypeCopy {
    TypeCopy() noexcept {}
    operator ProducerType&() noexcept { return entry; }

    ProducerType entry;
};

#else

/// One cache line, and quick to find.
class TypeSlot {
public:
    const ProducerType& entry() const noexcept { return entry_; }
    bool replace(const ProducerType& entry, ProducerType& before) noexcept {
        before = entry_;
        entry_ = entry;
        return true;
    }

private:
    alignas(64) ProducerType entry_;
};

/// Empty: an entry is used in place.
struct TypeCopy {
    constexpr TypeCopy() noexcept = default;
    constexpr TypeCopy(const ProducerType&) noexcept {}
};

#endif

/// The types that had to leave their slot for another one: sets of eight, in pages that are touched when one is needed.
/// What a set cannot hold is replaced in turn, so that types that are made and die take no more room than this.
class OverflowTypes {
public:
    /// NULL when memory is out. Its pages are the system's until they are written: nothing is constructed.
    static OverflowTypes* make() noexcept {
        constexpr std::size_t alignment = alignof(OverflowTypes);
        void* allocation = std::calloc(1, sizeof(OverflowTypes) + alignment);
        if (allocation == nullptr) return nullptr;
        const auto start = (reinterpret_cast<std::uintptr_t>(allocation) + alignment - 1) & ~(alignment - 1);
        auto* made = reinterpret_cast<OverflowTypes*>(start);
        made->allocation_ = allocation;
        return made;
    }
    static void end(OverflowTypes* types) noexcept {
        if (types != nullptr) std::free(types->allocation_);
    }

    /// NULL if there is none of this type.
    const TypeSlot* find(PyTypeObject* type) const noexcept {
        const Set& set = sets_[hash_of_type<set_bits>(type)];
        for (int way = 0; way < ways; ++way)
            if (load_shared(set.types[way]) == type) return &set.slots[way];
        return nullptr;
    }
    void remember(const ProducerType& entry) noexcept {
        Set& set = sets_[hash_of_type<set_bits>(entry.type)];
        int chosen = -1;
        for (int way = ways - 1; way >= 0; --way) {
            const PyTypeObject* there = load_shared(set.types[way]);
            if (there == entry.type) {
                chosen = way;
                break;
            }
            if (there == nullptr) chosen = way;
        }
        if (chosen < 0) {
            const unsigned int turn = load_shared(set.turn);
            store_shared(set.turn, turn + 1);
            chosen = static_cast<int>(turn % ways);
        }
        ProducerType before;
        if (set.slots[chosen].replace(entry, before)) store_shared(set.types[chosen], entry.type);
    }

private:
    static constexpr int set_bits = 9;
    static constexpr int ways = 8;
    struct Set {
        alignas(64) PyTypeObject* types[ways];
        TypeSlot slots[ways];
        unsigned int turn;
    };
    void* allocation_;
    Set sets_[std::size_t{1} << set_bits];
};

/// A slot for each type, by its address; the type that was there before goes to the overflow.
class TypeCache {
public:
    constexpr TypeCache() noexcept = default;
    TypeCache(const TypeCache&) = delete;
    /// Another session's types are forgotten.
    TypeCache& operator=(const TypeCache& other) noexcept {
        if (&other == this) return *this;
        OverflowTypes::end(overflow_);
        overflow_ = nullptr;
        std::memcpy(static_cast<void*>(slots_), static_cast<const void*>(other.slots_), sizeof slots_);
#if PY_VERSION_HEX < 0x030B0000
        witness = other.witness;
        witness_version = other.witness_version;
#endif
        return *this;
    }

#if defined(Py_GIL_DISABLED)
    bool find(PyTypeObject* type, ProducerType& out) const noexcept {
        if (ISTHMUS_LIKELY(slots_[hash_of_type<bits>(type)].find(type, out))) return true;
        const TypeSlot* left = overflow_slot(type);
        return left != nullptr && left->find(type, out);
    }
#else
    const ProducerType& entry(PyTypeObject* type) const noexcept { return slots_[hash_of_type<bits>(type)].entry(); }
#endif
    /// The slot of a type that has left its first one; NULL if there is none.
    const TypeSlot* overflow_slot(PyTypeObject* type) const noexcept {
        const OverflowTypes* overflow = load_shared(overflow_);
        return overflow != nullptr ? overflow->find(type) : nullptr;
    }
    /// Does nothing while another thread writes to the same slot.
    void remember(const ProducerType& entry) noexcept {
        // One that is in the overflow stays there: what is in its first slot is in use as well.
        if (overflow_slot(entry.type) != nullptr) return load_shared(overflow_)->remember(entry);
        ProducerType before;
        TypeSlot& first = slots_[hash_of_type<bits>(entry.type)];
        if (!first.replace(entry, before) || before.type == nullptr || before.type == entry.type) return;
        OverflowTypes* overflow = load_shared(overflow_);
        if (overflow == nullptr && (overflow = make_overflow()) == nullptr) return;
        overflow->remember(before);
    }

#if PY_VERSION_HEX < 0x030B0000
    PyTypeObject* witness = nullptr;  ///< see tags_are_the_same()
    unsigned int witness_version = 0;
#endif

private:
    static constexpr int bits = 6;
    OverflowTypes* make_overflow() noexcept {
        OverflowTypes* made = OverflowTypes::make();
        if (made == nullptr || store_first(overflow_, made)) return made;
        OverflowTypes::end(made);  // another thread was faster
        return load_shared(overflow_);
    }
    TypeSlot slots_[std::size_t{1} << bits];
    OverflowTypes* overflow_ = nullptr;
};

}  // namespace detail

ISTHMUS_END
