// A process's knowledge of its segments: where they are, which ranges are in use or lent, what a fork changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <tuple>
#include <vector>

#include <isthmus/shared.h>

#include "system.h"

ISTHMUS_BEGIN

namespace shared::impl {

struct Region;

/// Free ranges: offset -> size.
using Ranges = std::map<std::size_t, std::size_t>;

/// A range of a region that tensors of this process use.
struct Slot {
    std::size_t size = 0;
    Ranges::node_type gap;    ///< of a pool: what it will be among the free ranges: its release needs no memory
    std::uint32_t users = 0;  ///< tensors and other handles
    bool sent = false;        ///< a receiver may hold a lease on it
    bool forked = false;      ///< a forked child may hold one
    bool unleasable = false;  ///< has no lease, so that it is unknown when it is free again
    Region* home = nullptr;   ///< where its pages are, after they have moved to a region of the other kind
    std::size_t home_offset = 0;
    Mapping aside;             ///< the pages that belong at its address, while others are mapped there
    Region* region = nullptr;  ///< while it is lent
    std::size_t offset = 0;
};
using Slots = std::map<std::size_t, Slot>;

/// An element of a map before it has its key: what may throw is done before anything is changed.
template <class Map>
typename Map::node_type make_node() {
    Map one;
    one.try_emplace({});
    return one.extract(one.begin());
}

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
    File file;    ///< to send it on; if it was received, also the open file that holds this process's leases
    Mapping map;  ///< all of it; none if each tensor has a private mapping
    std::size_t size = 0;
    Identity identity;
    Access access{};  ///< how `map` is mapped
    Slots by_offset;
    Ranges free;  ///< of a pool
    std::size_t free_bytes = 0;
    PoolState* pool = nullptr;
    File for_child;  ///< holds leases on what a forked child has inherited
    std::unique_ptr<Region> next_dead;

    std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(map.data()); }
    /// The slot that holds [from, to); end() if there is none.
    Slots::iterator slot_of(std::size_t from, std::size_t to) {
        auto slot = by_offset.upper_bound(from);
        if (slot == by_offset.begin()) return by_offset.end();
        --slot;
        return to <= slot->first + slot->second.size ? slot : by_offset.end();
    }
};

struct PoolState {
    std::size_t limit = SIZE_MAX, idle_limit = SIZE_MAX;
    std::vector<Region*> regions;
    Slots lent;  ///< ranges that are no longer used here but that others may still read, by the time of their return
    std::size_t returns = 0;

    std::size_t reserved() const noexcept {
        std::size_t sum = 0;
        for (const Region* region : regions) sum += region->size;
        return sum;
    }
    /// The last of those that are lent.
    void lend(Slots::node_type slot) noexcept {
        slot.key() = returns++;
        lent.insert(lent.end(), std::move(slot));
    }
};

/// Returns a range to the free ones, joined with its neighbours; by itself it is `gap`.
inline void free_range(Region& region, std::size_t offset, std::size_t size, Ranges::node_type gap) noexcept {
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
    gap.key() = offset;
    gap.mapped() = size;
    region.free.insert(next, std::move(gap));
}

/// Takes the first free range that is large enough, and what it will be when it is free again; false if there is none.
inline bool take_range(Region& region, std::size_t size, std::size_t& offset, Ranges::node_type& gap) {
    if (region.free_bytes < size) return false;
    for (auto range = region.free.begin(); range != region.free.end(); ++range) {
        if (range->second < size) continue;
        const std::size_t rest = range->second - size;
        Ranges::node_type remains = rest != 0 ? make_node<Ranges>() : Ranges::node_type();
        offset = range->first;
        gap = region.free.extract(range);
        if (rest != 0) {
            remains.key() = offset + size;
            remains.mapped() = rest;
            region.free.insert(std::move(remains));
        }
        region.free_bytes -= size;
        return true;
    }
    return false;
}

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

inline Registry& registry();

/// One of a process if the dynamic linker merges it, else one of each shared object. A pointer and a lock are all that
/// the linker sees, so that a module without shared memory leaves the rest out. Never destroyed: tensors may be dropped
/// while the process ends. The number in the names rises with each change of a layout behind them (docs/abi.md).
ISTHMUS_EXPORT inline std::atomic<Registry*> registry2_of_process{nullptr};
ISTHMUS_EXPORT inline std::mutex making_one;

using Guard = std::lock_guard<std::mutex>;

inline void forget_region(Registry& r, Region* region) noexcept {
    r.regions.erase(region);
    if (region->map) r.by_address.erase(region->address());
    if (auto found = r.joinable.find({region->identity, region->access});
        found != r.joinable.end() && found->second == region)
        r.joinable.erase(found);
}
/// Adds a region, which gets its first user next; it stays the caller's if there is no memory. Call with the lock held.
inline Region& add_region(Registry& r, std::unique_ptr<Region>& region, bool joinable = false) {
    try {
        r.regions.insert(region.get());
        if (region->map) r.by_address.emplace(region->address(), region.get());
        // Instead of one that had no place for a slot: a slot that reaches over others costs one region, not theirs.
        if (joinable) r.joinable.insert_or_assign({region->identity, region->access}, region.get());
    } catch (...) {
        forget_region(r, region.get());
        throw;
    }
    return *region.release();
}

/// Regions without users, deleted when this is destroyed, which must be after the lock was released.
class Dead {
public:
    Dead() = default;
    Dead(const Dead&) = delete;
    Dead& operator=(const Dead&) = delete;
    ~Dead() {
        while (first_ != nullptr) first_ = std::move(first_->next_dead);
    }
    void take(Region* region) noexcept {
        region->next_dead = std::move(first_);
        first_.reset(region);
    }

private:
    std::unique_ptr<Region> first_;
};

/// One user less. Call with the lock held.
inline void drop_region(Registry& r, Region* region, Dead& dead) noexcept {
    if (--region->users != 0) return;
    forget_region(r, region);
    dead.take(region);
}

/// The place of a tensor: the region that holds its pages, the slot there, and the offset of its first element.
struct Place {
    Region* region = nullptr;
    std::size_t slot_offset = 0, slot_size = 0, offset = 0;
    Region* seen_in = nullptr;  ///< the region at whose address it is, which differs after a move
    std::size_t seen_at = 0;
};

/// Finds the slot that holds the bytes from `first` to `last`, counted from `data`; false if no segment does. Call with
/// the lock held.
inline bool find_place(Registry& r, const void* data, std::int64_t first, std::int64_t last, Place& place) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(first);
    auto found = r.by_address.upper_bound(begin);
    if (found == r.by_address.begin()) return false;
    Region* region = std::prev(found)->second;
    const std::size_t from = begin - region->address();
    const std::size_t to = from + static_cast<std::size_t>(last - first);
    if (from >= region->size || to >= region->size) return false;
    const auto slot = region->slot_of(from, to + 1);
    if (slot == region->by_offset.end()) return false;
    place = {region, slot->first, slot->second.size, from - static_cast<std::size_t>(first), region, slot->first};
    if (slot->second.home != nullptr) {
        place.region = slot->second.home;
        place.slot_offset = slot->second.home_offset;
        place.offset = place.offset - slot->first + place.slot_offset;
    }
    return true;
}

// A forked child shares the open files of its parent, and with them the leases: neither may end a lease that the other
// still needs, and the child never hands out memory of a pool that is also its parent's.

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

inline Registry& registry() {
    if (Registry* r = registry2_of_process.load(std::memory_order_acquire)) return *r;
    const Guard guard(making_one);
    if (Registry* r = registry2_of_process.load(std::memory_order_acquire)) return *r;
    auto* made = new Registry;
#if !defined(_WIN32)
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        delete made;
        throw std::bad_alloc();
    }
#endif
    registry2_of_process.store(made, std::memory_order_release);
    return *made;
}

inline bool is_idle(const Region& region) noexcept { return region.free_bytes == region.size; }

/// Releases whole regions that nobody uses to the system, until no more than `keep` bytes of them are left.
inline void trim_pool(Registry& r, PoolState& pool, std::size_t keep, Dead& dead) noexcept {
    std::size_t idle = 0;
    for (const Region* region : pool.regions)
        if (is_idle(*region)) idle += region->size;
    for (std::size_t i = 0; i < pool.regions.size() && idle > keep;) {
        Region* region = pool.regions[i];
        if (!is_idle(*region)) {
            ++i;
            continue;
        }
        idle -= region->size;
        pool.regions.erase(pool.regions.begin() + static_cast<std::ptrdiff_t>(i));
        region->pool = nullptr;
        drop_region(r, region, dead);
    }
}

/// Takes back what was lent and is no longer leased, the oldest first, looking at `max` ranges at most.
inline bool take_back(PoolState& pool, std::size_t max) noexcept {
    bool any = false;
    for (std::size_t left = (std::min)(max, pool.lent.size()); left > 0; --left) {
        Slots::node_type oldest = pool.lent.extract(pool.lent.begin());
        Slot& slot = oldest.mapped();
        if (leased(slot.region->file, slot.offset, slot.size)) {
            pool.lend(std::move(oldest));
            continue;
        }
        free_range(*slot.region, slot.offset, slot.size, std::move(slot.gap));
        any = true;
    }
    return any;
}

/// The last user of a pool's slot in this process is gone. Call with the lock held.
inline void retire_slot(Registry& r, Region& region, Slots::node_type last, Dead& dead) noexcept {
    Slot& slot = last.mapped();
    const std::size_t offset = last.key();
    if (region.pool == nullptr || region.inherited) return;  // freed with its region
    // A slot that was sent without a lease counts as lent for good: its memory comes back with the region.
    if (slot.unleasable) return;
    if ((slot.sent || slot.forked) && leased(region.file, offset, slot.size)) {
        slot.region = &region;
        slot.offset = offset;
        return region.pool->lend(std::move(last));
    }
    free_range(region, offset, slot.size, std::move(slot.gap));
    if (is_idle(region)) trim_pool(r, *region.pool, region.pool->idle_limit, dead);
}

/// One user of a slot, and of its region, less. Call with the lock held.
inline void drop_slot(Registry& r, Region* region, std::size_t offset, Dead& dead) noexcept {
    const auto found = region->by_offset.find(offset);
    if (found == region->by_offset.end() || --found->second.users != 0) return drop_region(r, region, dead);
    Slots::node_type last = region->by_offset.extract(found);
    Slot& slot = last.mapped();
    if (region->kind == RegionKind::received && !region->inherited) unlease(region->file, offset, slot.size);
    if (region->kind == RegionKind::pool) {
        // The pages that belong at this address must come back before the range can be used again.
        const bool in_place = slot.home == nullptr || move_pages(std::move(slot.aside), region->map.data() + offset);
        if (slot.home != nullptr) drop_slot(r, slot.home, slot.home_offset, dead);
        if (in_place) retire_slot(r, *region, std::move(last), dead);
    }
    drop_region(r, region, dead);
}

/// A use of a slot: the owner of the tensors in it.
class Hold {
public:
    Hold(Region* region, std::size_t offset) noexcept : region_(region), offset_(offset) {}
    Hold(Hold&& other) noexcept
        : region_(std::exchange(other.region_, nullptr)),
          offset_(other.offset_),
          file_(std::move(other.file_)),
          view_(std::move(other.view_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
        if (region_ == nullptr) return;
        view_ = Mapping();  // before the lease ends
        Dead dead;
        Registry& r = registry();
        Guard guard(r.mutex);
        drop_slot(r, region_, offset_, dead);
    }
    Region& region() const noexcept { return *region_; }
    std::size_t offset() const noexcept { return offset_; }
    /// Keeps the open file that holds the lease, if the region's could not.
    void keep(File file) noexcept { file_ = std::move(file); }
    /// Keeps a private mapping, which data() then shows.
    void keep(Mapping view) noexcept { view_ = std::move(view); }
    char* data() const noexcept { return view_ ? view_.data() : region_->map.data() + offset_; }

private:
    Region* region_;
    std::size_t offset_;
    File file_;
    Mapping view_;
};

/// One user of a slot more. Call with the lock held.
inline Hold hold_slot(Region& region, std::size_t offset, Slot& slot) noexcept {
    ++slot.users;
    ++region.users;
    return {&region, offset};
}

/// A new slot with one user, of a node that was made before. Call with the lock held.
inline Hold add_slot(Region& region, std::size_t offset, std::size_t size, Slots::node_type made) noexcept {
    made.key() = offset;
    made.mapped().size = size;
    return hold_slot(region, offset, region.by_offset.insert(std::move(made)).position->second);
}

}  // namespace shared::impl

ISTHMUS_END
