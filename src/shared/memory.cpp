// Segments and pools: tensors in memory that other processes can map, recycled when they are done with it.
// SPDX-License-Identifier: Apache-2.0
#include "allocate.h"

ISTHMUS_BEGIN

namespace shared {

Result<Segment> Segment::create(std::size_t nbytes, Access max_access) {
    auto made = impl::make_region(impl::RegionKind::segment, nbytes, max_access == Access::shared);
    if (!made) return std::move(made).error();
    impl::Region* region = made->release();
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    impl::add_region(r, region);
    return Segment(std::make_shared<impl::Hold>(impl::add_slot(*region, 0, region->size)));
}

void* Segment::data() const noexcept { return hold_->region().map.data(); }
std::size_t Segment::size() const noexcept { return hold_->region().size; }
int Segment::descriptor() const noexcept { return hold_->region().file.get(); }
bool Segment::allows_writers() const noexcept { return hold_->region().writers; }

Result<Tensor> Segment::tensor(const Shape& shape, DType dtype, std::size_t byte_offset) const {
    const Result<std::size_t> bytes = impl::bytes_of(shape, dtype);
    if (!bytes) return bytes.error();
    if (byte_offset > size() || *bytes > size() - byte_offset)
        return impl::value_error(
            ErrorCode::bad_layout,
            {"argument 'shape': ", isthmus::detail::sizes_text(shape.data(), static_cast<int>(shape.size())), " of ",
             dtype, " needs ", *bytes, " bytes from ", byte_offset, "; the segment has ", size()});
    return impl::catch_error(
        [&] { return Tensor::wrap(static_cast<char*>(data()) + byte_offset, shape, {}, dtype, Device::cpu(), hold_); });
}

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
        return impl::make_error(ErrorCode::bad_device,
                                {"argument 'tensor': on ", tensor.device(), "; expected host memory"});
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

namespace impl {
ISTHMUS_EXPORT inline std::atomic<Pool*> pool_of_process{nullptr};
}

Pool& Pool::process() {
    if (Pool* pool = impl::pool_of_process.load(std::memory_order_acquire)) return *pool;
    (void)impl::registry();  // takes the same lock to be made
    const impl::Guard guard(impl::making_one);
    if (Pool* pool = impl::pool_of_process.load(std::memory_order_acquire)) return *pool;
    auto* made = new Pool;
    impl::pool_of_process.store(made, std::memory_order_release);
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

ISTHMUS_END
