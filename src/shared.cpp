// Shared memory between processes: segments and pools, and tensors that are handed over without their elements.
// SPDX-License-Identifier: Apache-2.0
#include "shared/messages.h"

ISTHMUS_BEGIN

namespace shared {

namespace impl {

/// What the copies of a Segment, and its tensors, share.
struct SegmentState {
    std::atomic<std::uint32_t> users{1};
    Hold hold;
};
void hold_segment(SegmentState* segment) noexcept { segment->users.fetch_add(1, std::memory_order_relaxed); }
void drop_segment(SegmentState* segment) noexcept {
    if (segment->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete segment;
}

PoolState* make_pool(const PoolOptions& options) {
    auto pool = std::make_unique<PoolState>();
    pool->limit = options.limit;
    pool->idle_limit = options.idle_limit;
    Registry& r = registry();
    const Guard guard(r.mutex);
    r.pools.insert(pool.get());
    return pool.release();
}
void end_pool(PoolState* pool) noexcept {
    const std::unique_ptr<PoolState> ended(pool);
    Dead dead;
    Registry& r = registry();
    const Guard guard(r.mutex);
    r.pools.erase(pool);
    for (Region* region : pool->regions) {
        region->pool = nullptr;
        drop_region(r, region, dead);
    }
}

}  // namespace impl

Result<Segment> Segment::create(std::size_t nbytes, Access max_access) {
    auto made = impl::make_region(impl::RegionKind::segment, nbytes, max_access == Access::shared);
    if (!made) return std::move(made).error();
    impl::Slots::node_type slot = impl::make_node<impl::Slots>();
    impl::Registry& r = impl::registry();
    const auto hold = [&] {
        impl::Guard guard(r.mutex);
        impl::Region& region = impl::add_region(r, *made);
        return impl::add_slot(region, 0, region.size, std::move(slot));
    };
    return Segment(new impl::SegmentState{.hold = hold()});
}

void* Segment::data() const noexcept { return state_->hold.region().map.data(); }
std::size_t Segment::size() const noexcept { return state_->hold.region().size; }
int Segment::descriptor() const noexcept { return state_->hold.region().file.get(); }
bool Segment::allows_writers() const noexcept { return state_->hold.region().writers; }

Result<Tensor> Segment::tensor(const Shape& shape, DType dtype, std::size_t byte_offset) const {
    const Result<std::size_t> bytes = impl::bytes_of(shape, dtype);
    if (!bytes) return bytes.error();
    if (byte_offset > size() || *bytes > size() - byte_offset)
        return impl::value_error(
            ErrorCode::bad_layout,
            {"argument 'shape': ", isthmus::detail::sizes_text(shape.data(), static_cast<int>(shape.size())), " of ",
             dtype, " needs ", *bytes, " bytes from ", byte_offset, "; the segment has ", size()});
    return impl::catch_error(
        [&] { return Tensor::wrap(static_cast<char*>(data()) + byte_offset, shape, {}, dtype, Device::cpu(), *this); });
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
    if (!tensor.device().is_host())
        return impl::make_error(ErrorCode::bad_device,
                                {"argument 'tensor': on ", tensor.device(), "; expected host memory"});
    const auto nbytes = static_cast<std::size_t>(tensor.nbytes());
    Result<impl::Hold> hold = impl::allocate(*state_, nbytes, max_access == Access::shared, wait);
    if (!hold) return std::move(hold).error();
    char* data = hold->data();
    std::int64_t first = 0;
    const bool dense = impl::copy_elements_to(tensor, data, first);
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

namespace impl {
ISTHMUS_EXPORT inline std::atomic<Pool*> pool2_of_process{nullptr};
}

Pool& Pool::process() {
    if (Pool* pool = impl::pool2_of_process.load(std::memory_order_acquire)) return *pool;
    (void)impl::registry();  // takes the same lock to be made
    const impl::Guard guard(impl::making_one);
    if (Pool* pool = impl::pool2_of_process.load(std::memory_order_acquire)) return *pool;
    auto* made = new Pool;
    impl::pool2_of_process.store(made, std::memory_order_release);
    return *made;
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

namespace shared {

Result<void> send(int socket, const Tensor& tensor, Access access, const Wait& wait) {
    return impl::send_message(socket, tensor, access, impl::Kind::tensor, wait);
}

Result<Tensor> receive(int socket, std::optional<Access> access, const Wait& wait) {
    impl::Kind kind{};
    Result<Tensor> tensor = impl::receive_message_of(socket, access, kind, wait);
    if (!tensor || kind == impl::Kind::tensor) return tensor;
    return impl::bad_message(
        "the message is a part of a tree of tensors; expected a tensor: receive trees with isthmus.shared.Channel");
}

}  // namespace shared

ISTHMUS_END
