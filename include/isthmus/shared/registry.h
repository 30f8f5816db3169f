// All segments of this process, found by address or by kernel object, and what becomes of them when it forks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include <isthmus/shared/region.h>

ISTHMUS_BEGIN

namespace shared::impl {

/// One lock guards all of it: a fork must find everything in a consistent state, and the work under the lock takes
/// microseconds.
struct Registry {
    std::mutex mutex;
    std::map<std::uintptr_t, Region*> by_address;
    /// Received regions that more messages may join: by object and by how it is mapped.
    using Joinable = std::tuple<Identity, Access>;
    std::map<Joinable, Region*> joinable;
    std::set<Region*> regions;
    std::set<PoolState*> pools;
};

ISTHMUS_EXPORT inline Registry& registry();

using Guard = std::lock_guard<std::mutex>;

/// Adds a region. Call with the lock held.
inline void add_region(Registry& r, Region* region) {
    r.regions.insert(region);
    if (region->map) r.by_address.emplace(region->address(), region);
}

/// Regions without users, deleted when this is destroyed, which must be after the lock was released.
using Dead = std::vector<std::unique_ptr<Region>>;

/// One user less. Call with the lock held.
inline void drop_region(Registry& r, Region* region, Dead& dead) {
    if (--region->users != 0) return;
    r.regions.erase(region);
    if (region->map) r.by_address.erase(region->address());
    if (auto found = r.joinable.find({region->identity, region->access}); found != r.joinable.end() && found->second == region)
        r.joinable.erase(found);
    dead.emplace_back(region);
}

/// Where memory is: the region that holds its pages, the slot there, and the offset of `first`.
struct Place {
    Region* region = nullptr;
    std::size_t slot_offset = 0, slot_size = 0, offset = 0;
    Region* shown_in = nullptr;  ///< the region at whose address it is, which differs after a move
    std::size_t shown_at = 0;
};

/// Finds the slot that holds [first, last]; false if no segment does. Call with the lock held.
inline bool find_place(Registry& r, std::uintptr_t first, std::uintptr_t last, Place& place) {
    auto found = r.by_address.upper_bound(first);
    if (found == r.by_address.begin()) return false;
    Region* region = std::prev(found)->second;
    const std::size_t from = first - region->address();
    if (from >= region->size || last - region->address() >= region->size) return false;
    const auto slot = region->slot_of(from, last - region->address() + 1);
    if (slot == region->by_offset.end()) return false;
    place = {region, slot->first, slot->second.size, from, region, slot->first};
    if (slot->second.home != nullptr) {
        place.region = slot->second.home;
        place.slot_offset = slot->second.home_offset;
        place.offset = slot->second.home_offset + (from - slot->first);
    }
    return true;
}

// A forked child shares the open files of its parent, and with them the leases: neither may end a lease that the other still
// needs, and the child never hands out memory of a pool that is also its parent's.

inline void before_fork() noexcept {
    Registry& r = registry();
    r.mutex.lock();
    for (Region* region : r.regions) {
        if (region->kind == RegionKind::received) continue;
        for (auto& [offset, slot] : region->by_offset) {
            if (slot.users == 0) continue;
            if (!region->for_child) region->for_child = reopen(region->file);
            if (!region->for_child || !lease(region->for_child, offset, slot.size)) slot.unleasable = true;
            slot.forked = true;
        }
    }
}
inline void after_fork_in_parent() noexcept {
    Registry& r = registry();
    for (Region* region : r.regions) {
        region->for_child = File();
        if (region->kind == RegionKind::received) region->inherited = true;
    }
    r.joinable.clear();
    r.mutex.unlock();
}

inline void after_fork_in_child() noexcept {
    Registry& r = registry();
    r.joinable.clear();
    for (Region* region : r.regions) region->inherited = true;
    Dead dead;
    for (PoolState* pool : r.pools) {
        pool->lent.clear();
        for (Region* region : pool->regions) {
            region->pool = nullptr;
            drop_region(r, region, dead);
        }
        pool->regions.clear();
    }
    r.mutex.unlock();
}

/// One per process if the dynamic linker merges it, else one per shared object. Never destroyed: tensors may be dropped while
/// the process ends.
inline Registry& registry() {
    static Registry* const made = [] {
        auto* r = new Registry;
#if !defined(_WIN32)
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
#endif
        return r;
    }();
    return *made;
}

}  // namespace shared::impl

ISTHMUS_END
