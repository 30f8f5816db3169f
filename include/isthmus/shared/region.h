// What a process knows about its segments: which ranges are in use here and elsewhere, and which pool they belong to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include <isthmus/shared/mapping.h>

ISTHMUS_BEGIN

namespace shared::impl {

struct PoolState;
struct Region;

/// A range of a region that tensors of this process use.
struct Slot {
    std::size_t size = 0;
    std::uint32_t users = 0;  ///< tensors and other handles
    bool sent = false;        ///< a receiver may hold a lease on it
    bool forked = false;      ///< a forked child may hold one
    bool unleasable = false;  ///< has no lease, so that it is unknown when it is free again
    Region* home = nullptr;   ///< where its pages are, after they have moved to a region of the other kind
    std::size_t home_offset = 0;
    Mapping aside;  ///< the pages that belong at its address, while others are mapped there
};

/// What `Region::kind` says of its slots.
enum class RegionKind : std::uint8_t {
    segment,   ///< made here; one slot, all of it
    pool,      ///< made here; slots are cut out of it and recycled
    received,  ///< came from another process; slots are leases
};

struct Region {
    RegionKind kind{};
    bool writers = false;    ///< others may map it writable
    bool inherited = false;  ///< its open file, and with it the leases, is also another process's (after a fork)
    std::uint32_t users = 0;
    File file;    ///< to send it on; where it was received, also the open file that holds this process's leases
    Mapping map;  ///< all of it; none where each tensor has a private mapping
    std::size_t size = 0;
    Identity identity;
    Access access{};                          ///< how `map` is mapped
    std::map<std::size_t, Slot> by_offset;
    std::map<std::size_t, std::size_t> free;  ///< offset -> size, of a pool
    std::size_t free_bytes = 0;
    PoolState* pool = nullptr;
    File for_child;  ///< holds leases on what a forked child has inherited

    std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(map.data()); }
    /// The slot that holds [from, to); end() when there is none.
    std::map<std::size_t, Slot>::iterator slot_of(std::size_t from, std::size_t to) {
        auto slot = by_offset.upper_bound(from);
        if (slot == by_offset.begin()) return by_offset.end();
        --slot;
        return to <= slot->first + slot->second.size ? slot : by_offset.end();
    }
};

/// A range that is no longer used here but that others may still read.
struct Lent {
    Region* region;
    std::size_t offset, size;
};

struct PoolState {
    std::size_t limit = SIZE_MAX, idle_limit = SIZE_MAX;
    std::vector<Region*> regions;
    std::deque<Lent> lent;

    std::size_t reserved() const noexcept {
        std::size_t sum = 0;
        for (const Region* region : regions) sum += region->size;
        return sum;
    }
};

/// Gives a range back to the free ones, joined with its neighbours.
inline void free_range(Region& region, std::size_t offset, std::size_t size) {
    region.free_bytes += size;
    auto next = region.free.lower_bound(offset);
    if (next != region.free.end() && offset + size == next->first) {
        size += next->second;
        next = region.free.erase(next);
    }
    if (next != region.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == offset) {
            before->second += size;
            return;
        }
    }
    region.free.emplace_hint(next, offset, size);
}

/// Takes the first free range that is large enough; false when there is none.
inline bool take_range(Region& region, std::size_t size, std::size_t& offset) {
    if (region.free_bytes < size) return false;
    for (auto range = region.free.begin(); range != region.free.end(); ++range) {
        if (range->second < size) continue;
        offset = range->first;
        const std::size_t rest = range->second - size;
        region.free.erase(range);
        if (rest != 0) region.free.emplace(offset + size, rest);
        region.free_bytes -= size;
        return true;
    }
    return false;
}

}  // namespace shared::impl

ISTHMUS_END
