// The bookkeeping of a pool: which of its memory is free, in use here, or lent to others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <isthmus/shared/registry.h>

ISTHMUS_BEGIN

namespace shared::impl {

inline bool is_idle(const Region& region) noexcept { return region.free_bytes == region.size; }

/// Gives whole regions that nobody uses back to the system, until no more than `keep` bytes of them are left.
inline void trim_pool(Registry& r, PoolState& pool, std::size_t keep, Dead& dead) {
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

/// Takes back what was lent and is no longer leased, the oldest first, looking at `most` ranges at most.
inline bool take_back(PoolState& pool, std::size_t most) {
    bool any = false;
    for (std::size_t looked = (std::min)(most, pool.lent.size()); looked > 0; --looked) {
        const Lent item = pool.lent.front();
        pool.lent.pop_front();
        if (leased(item.region->file, item.offset, item.size)) {
            pool.lent.push_back(item);
            continue;
        }
        free_range(*item.region, item.offset, item.size);
        any = true;
    }
    return any;
}

/// The last user of a pool's slot in this process is gone. Call with the lock held.
inline void retire_slot(Registry& r, Region& region, std::size_t offset, const Slot& slot, Dead& dead) {
    if (region.pool == nullptr || region.inherited) return;  // freed with its region
    // A slot that was sent without a lease counts as lent for good: its memory comes back with the region.
    if (slot.unleasable) return;
    if ((slot.sent || slot.forked) && leased(region.file, offset, slot.size)) {
        region.pool->lent.push_back({&region, offset, slot.size});
        return;
    }
    free_range(region, offset, slot.size);
    if (is_idle(region)) trim_pool(r, *region.pool, region.pool->idle_limit, dead);
}

/// One user of a slot less. Call with the lock held.
inline void drop_slot(Registry& r, Region& region, std::size_t offset, Dead& dead) {
    const auto found = region.by_offset.find(offset);
    if (found == region.by_offset.end() || --found->second.users != 0) return;
    Slot slot = std::move(found->second);
    region.by_offset.erase(found);
    switch (region.kind) {
        case RegionKind::segment:
            break;
        case RegionKind::received:
            if (!region.inherited) unlease(region.file, offset, slot.size);
            break;
        case RegionKind::pool:
            if (slot.home != nullptr) {
                // The pages that belong at this address must come back before the range can be used again.
                const bool restored = move_pages(std::move(slot.aside), region.map.data() + offset);
                drop_slot(r, *slot.home, slot.home_offset, dead);
                drop_region(r, slot.home, dead);
                if (!restored) break;
            }
            retire_slot(r, region, offset, slot, dead);
            break;
    }
}

/// A handle on a slot: the owner of the tensors that show it.
class Hold {
public:
    Hold(Region* region, std::size_t offset) noexcept : region_(region), offset_(offset) {}
    Hold(Hold&& other) noexcept
        : region_(std::exchange(other.region_, nullptr)),
          offset_(other.offset_),
          own_(std::move(other.own_)),
          view_(std::move(other.view_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
        if (region_ == nullptr) return;
        view_ = Mapping();  // before the lease ends
        Dead dead;
        Registry& r = registry();
        Guard guard(r.mutex);
        drop_slot(r, *region_, offset_, dead);
        drop_region(r, region_, dead);
    }
    Region& region() const noexcept { return *region_; }
    std::size_t offset() const noexcept { return offset_; }
    /// The open file that holds the lease, where the region's own could not.
    void keep(File file) noexcept { own_ = std::move(file); }
    /// Keeps a mapping of its own.
    void keep(Mapping view) noexcept { view_ = std::move(view); }
    char* data() const noexcept { return view_ ? view_.data() : region_->map.data() + offset_; }

private:
    Region* region_;
    std::size_t offset_;
    File own_;
    Mapping view_;
};

/// One user of a slot more. Call with the lock held.
inline Hold hold_slot(Region& region, std::size_t offset, Slot& slot) noexcept {
    ++slot.users;
    ++region.users;
    return {&region, offset};
}

}  // namespace shared::impl

ISTHMUS_END
