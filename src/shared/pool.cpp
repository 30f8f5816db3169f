// Pools: tensors in shared memory that is reused as soon as no process uses it any more.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "message.h"
#include "registry.h"

ISTHMUS_BEGIN

namespace shared {

namespace impl {

inline constexpr std::size_t min_segment = std::size_t{1} << 20;
inline constexpr std::size_t checked_at_once = 256;

/// Each new segment is a quarter of what is reserved already, so that their number grows with the logarithm of the
/// bytes.
inline std::size_t next_segment(std::size_t reserved, std::size_t needed, std::size_t limit) noexcept {
    std::size_t size = std::max(min_segment, reserved / 4 / page_size() * page_size());
    if (limit - reserved < size) size = (limit - reserved) / page_size() * page_size();
    return std::max(size, needed);
}

inline bool cut_slot(PoolState& pool, std::size_t size, bool writers, Region*& region, std::size_t& offset) {
    for (Region* candidate : pool.regions)
        if (candidate->writers == writers && take_range(*candidate, size, offset)) return region = candidate, true;
    return false;
}

/// A slot that is free already, or that has come back. Call with the lock held.
inline bool find_slot(PoolState& pool, std::size_t size, bool writers, std::size_t max, Region*& region, std::size_t& offset) {
    if (cut_slot(pool, size, writers, region, offset)) return true;
    return take_back(pool, max) && cut_slot(pool, size, writers, region, offset);
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
    Region* region = made->release();
    Registry& r = registry();
    Guard guard(r.mutex);
    add_region(r, region);
    region->pool = &pool;
    region->users = 1;
    free_range(*region, 0, region->size);
    pool.regions.push_back(region);
    std::size_t offset = 0;
    (void)take_range(*region, size, offset);
    return add_slot(*region, offset, size);
}

Result<Hold> allocate(PoolState& pool, std::size_t bytes, bool writers, const Wait& wait) {
    const Result<std::size_t> pages = whole_pages(bytes);
    if (!pages) return pages.error();
    const std::size_t size = *pages;
    const Deadline deadline(wait);
    Registry& r = registry();
    int waits = 0;
    for (std::size_t max = checked_at_once;; max = SIZE_MAX) {
        std::size_t segment_size = 0;
        {
            Dead dead;  // released after the lock, and before more memory is reserved
            Guard guard(r.mutex);
            Region* region = nullptr;
            std::size_t offset = 0;
            if (find_slot(pool, size, writers, max, region, offset)) return add_slot(*region, offset, size);
            if (may_grow(r, pool, size, dead)) segment_size = next_segment(pool.reserved(), size, pool.limit);
        }
        if (segment_size != 0) return allocate_in_new(pool, segment_size, size, writers);
        if (max != SIZE_MAX) continue;  // everything that is lent is checked before any wait
        if (size > pool.limit)
            return make_error(ErrorCode::out_of_memory, {"no memory for ", bytes, " bytes: the pool's limit is ", pool.limit});
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

}  // namespace impl

Pool::Pool(PoolOptions options) : state_(std::make_unique<impl::PoolState>()) {
    state_->limit = options.limit;
    state_->idle_limit = options.idle_limit;
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    r.pools.insert(state_.get());
}
Pool::Pool(Pool&&) noexcept = default;
Pool::~Pool() {
    if (state_ == nullptr) return;
    impl::Dead dead;
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    r.pools.erase(state_.get());
    for (impl::Region* region : state_->regions) {
        region->pool = nullptr;
        impl::drop_region(r, region, dead);
    }
}

Result<Tensor> Pool::empty(const Shape& shape, DType dtype, Access max_access, const Wait& wait) {
    const Result<std::size_t> bytes = impl::bytes_of(shape, dtype);
    if (!bytes) return bytes.error();
    Result<impl::Hold> hold = impl::allocate(*state_, *bytes, max_access == Access::shared, wait);
    if (!hold) return std::move(hold).error();
    void* data = hold->data();
    return impl::catch_error(
        [&] { return Tensor::wrap_spec([&] { return TensorSpec(data, dtype, shape); }, std::move(*hold)); });
}

Result<Tensor> Pool::share(const Tensor& tensor, Access max_access, const Wait& wait) {
    const DLTensor& t = tensor.descriptor();
    if (!tensor.device().is_host())
        return impl::make_error(ErrorCode::bad_device, {"argument 'tensor': on ", tensor.device(), "; wanted host memory"});
    const auto nbytes = static_cast<std::size_t>(tensor.nbytes());
    Result<impl::Hold> hold = impl::allocate(*state_, nbytes, max_access == Access::shared, wait);
    if (!hold) return std::move(hold).error();
    char* data = hold->data();
    std::int64_t first = 0, last = 0;
    const bool packed = tensor.dtype().is_subbyte() && !tensor.is_padded();
    const bool dense = tensor.numel() != 0 && impl::reach(t, tensor.is_padded(), first, last) &&
                       (packed || layout::is_dense(t.shape, t.strides, t.ndim));
    if (dense)
        std::memcpy(data, static_cast<char*>(tensor.data()) + first, nbytes);
    else
        isthmus::detail::copy_elements(t, data);
    const auto describe = [&] {
        TensorSpec spec(dense ? data - first : data, tensor.dtype(), tensor.shape());
        if (dense) spec.set_strides(tensor.strides());
        spec.padded = tensor.is_padded();
        return spec;
    };
    return impl::catch_error([&] { return Tensor::wrap_spec(describe, std::move(*hold)); });
}

PoolStats Pool::stats() const {
    impl::Guard guard(impl::registry().mutex);
    PoolStats stats{state_->regions.size(), state_->reserved(), 0, state_->lent.size()};
    for (const impl::Region* region : state_->regions) stats.free += region->free_bytes;
    return stats;
}

void Pool::trim() {
    impl::Dead dead;
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    (void)impl::take_back(*state_, SIZE_MAX);
    impl::trim_pool(r, *state_, 0, dead);
}

Result<Tensor> empty(const Shape& shape, DType dtype, Access max_access) {
    return Pool::process().empty(shape, dtype, max_access);
}

bool is_shared(const Tensor& tensor) {
    if (!tensor || !tensor.device().is_host() || tensor.numel() == 0) return false;
    std::int64_t first = 0, last = 0;
    if (!impl::reach(tensor.descriptor(), tensor.is_padded(), first, last)) return false;
    impl::Place place;
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    return impl::find_place(r, tensor.data(), first, last, place);
}

Result<Tensor> share(const Tensor& tensor, Access max_access, Pool& pool, const Wait& wait) {
    if (is_shared(tensor)) return tensor;
    return pool.share(tensor, max_access, wait);
}

}  // namespace shared

ISTHMUS_END
