// How memory is made: the region of a segment, and the slots that a pool cuts out of its regions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "message.h"
#include "registry.h"

ISTHMUS_BEGIN

namespace shared::impl {

/// `bytes` in whole pages, one at least.
inline Result<std::size_t> whole_pages(std::size_t bytes) {
    const std::size_t page = page_size();
    if (bytes > static_cast<std::size_t>(INT64_MAX) - page)
        return make_error(ErrorCode::overflow, {"a segment of ", bytes, " bytes is larger than the address space"});
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

/// A new region: reserved, mapped and sealed, in this order. It has no user yet and is not in the registry.
inline Result<std::unique_ptr<Region>> make_region(RegionKind kind, std::size_t bytes, bool writers) {
    const Result<std::size_t> pages = whole_pages(bytes);
    if (!pages) return pages.error();
    const std::size_t size = *pages;
    Result<File> file = create_memory(size);
    if (!file) return std::move(file).error();
    Result<Mapping> map = map_file(*file, 0, size, Access::shared);
    if (!map) return std::move(map).error();
    if (auto sealed = seal_memory(*file, writers); !sealed) return std::move(sealed).error();
    auto region = std::make_unique<Region>();
    region->kind = kind;
    region->writers = writers;
    region->identity = identify(*file);
    region->access = Access::shared;
    region->file = std::move(*file);
    region->map = std::move(*map);
    region->size = size;
    return region;
}

/// Bytes of a row-major tensor; an Error that names the argument if they overflow.
inline Result<std::size_t> bytes_of(const Shape& shape, DType dtype) {
    if (shape.size() > static_cast<std::size_t>(max_ndim))
        return value_error(ErrorCode::bad_layout,
                           {"argument 'shape': ", shape.size(), " dimensions; expected at most ", max_ndim});
    return catch_error([&] {
        return static_cast<std::size_t>(
            isthmus::detail::bytes_of_new(shape.data(), static_cast<int>(shape.size()), dtype, 0));
    });
}

inline constexpr std::size_t min_segment = std::size_t{1} << 20;
inline constexpr std::size_t checked_at_once = 256;

/// Each new segment is a quarter of what is reserved already, so that their number grows with the logarithm of the
/// bytes; and an eighth of the limit at most, since a segment is of one kind and the other kind needs room as well.
inline std::size_t next_segment(std::size_t reserved, std::size_t needed, std::size_t limit) noexcept {
    const std::size_t size = (std::min)({(std::max)(min_segment, reserved / 4), limit / 8, limit - reserved});
    return (std::max)(size / page_size() * page_size(), needed);
}

inline bool cut_slot(PoolState& pool, std::size_t size, bool writers, Region*& region, std::size_t& offset,
                     Slots::node_type& slot) {
    for (Region* candidate : pool.regions)
        if (candidate->writers == writers && take_range(*candidate, size, offset, slot.mapped().gap))
            return region = candidate, true;
    return false;
}

/// A slot that is free already, or that has come back. Call with the lock held.
inline bool find_slot(PoolState& pool, std::size_t size, bool writers, std::size_t max, Region*& region,
                      std::size_t& offset, Slots::node_type& slot) {
    if (cut_slot(pool, size, writers, region, offset, slot)) return true;
    return take_back(pool, max) && cut_slot(pool, size, writers, region, offset, slot);
}

/// Makes room below the limit by releasing idle segments that are of the other kind or too small; false if it cannot.
inline bool may_grow(Registry& r, PoolState& pool, std::size_t size, Dead& dead) {
    if (size > pool.limit) return false;
    if (pool.limit - pool.reserved() >= size) return true;
    trim_pool(r, pool, 0, dead);
    return pool.limit - pool.reserved() >= size;
}

/// A slot of `size` bytes in a new segment of `segment_size`, or in one that just holds it if memory is short.
inline Result<Hold> allocate_in_new(PoolState& pool, std::size_t segment_size, std::size_t size, bool writers) {
    auto made = make_region(RegionKind::pool, segment_size, writers);
    if (!made && segment_size > size) made = make_region(RegionKind::pool, size, writers);
    if (!made) return std::move(made).error();
    Slots::node_type slot = make_node<Slots>();
    std::size_t offset = 0;
    free_range(**made, 0, (*made)->size, make_node<Ranges>());
    (void)take_range(**made, size, offset, slot.mapped().gap);
    Registry& r = registry();
    Guard guard(r.mutex);
    pool.regions.reserve(pool.regions.size() + 1);
    Region& region = add_region(r, *made);
    region.pool = &pool;
    region.users = 1;
    pool.regions.push_back(&region);
    return add_slot(region, offset, size, std::move(slot));
}

/// A slot of `bytes` of the pool, in a region that others may or may not write.
inline Result<Hold> allocate(PoolState& pool, std::size_t bytes, bool writers, const Wait& wait) {
    const Result<std::size_t> pages = whole_pages(bytes);
    if (!pages) return pages.error();
    const std::size_t size = *pages;
    const Deadline deadline(wait);
    Registry& r = registry();
    Slots::node_type slot = make_node<Slots>();
    int waits = 0;
    for (std::size_t max = checked_at_once;; max = SIZE_MAX) {
        std::size_t segment_size = 0;
        {
            Dead dead;  // released after the lock, and before more memory is reserved
            Guard guard(r.mutex);
            Region* region = nullptr;
            std::size_t offset = 0;
            if (find_slot(pool, size, writers, max, region, offset, slot))
                return add_slot(*region, offset, size, std::move(slot));
            if (may_grow(r, pool, size, dead)) segment_size = next_segment(pool.reserved(), size, pool.limit);
        }
        if (segment_size != 0) return allocate_in_new(pool, segment_size, size, writers);
        if (max != SIZE_MAX) continue;  // everything that is lent is checked before any wait
        if (size > pool.limit)
            return make_error(ErrorCode::out_of_memory,
                              {"no memory for ", bytes, " bytes: the pool's limit is ", pool.limit});
        if (deadline.left() == 0)
            return make_error(deadline.is_patient() ? ErrorCode::timed_out : ErrorCode::out_of_memory,
                              {"no memory for ", bytes, " bytes: the pool's limit of ", pool.limit,
                               " is in use, and none of it came back in time"});
        // Nothing notifies us that a lease has ended, so we poll: often at first, then at a negligible cost.
        if (++waits <= 20)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        else if (auto waited = deadline.wait_for(-1, 0, "no memory of the pool came back", 1); !waited)
            return std::move(waited).error();
    }
}

}  // namespace shared::impl

ISTHMUS_END
