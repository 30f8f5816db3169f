// Pools: tensors in shared memory that is reused as soon as no process uses it any more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <isthmus/core/copy.h>
#include <isthmus/shared/reach.h>
#include <isthmus/shared/segment.h>
#include <isthmus/shared/wait.h>

ISTHMUS_BEGIN

namespace shared {

/// How much memory a Pool may keep.
struct PoolOptions {
    /// Bytes that the pool may reserve; a request beyond them waits for what is lent, and then fails.
    std::size_t limit = SIZE_MAX;
    /// Bytes of unused whole segments that are kept for later; filling fresh memory is some ten times slower.
    std::size_t idle_limit = std::size_t{1} << 30;
};

/// What a Pool holds at the moment, as Pool::stats() counts it.
struct PoolStats {
    std::size_t segments = 0;  ///< memfds, one descriptor each
    std::size_t reserved = 0;  ///< their bytes
    std::size_t free = 0;      ///< bytes that can be handed out at once
    std::size_t lent = 0;      ///< slots that only other processes still use, as of the last check
};

namespace impl {

inline constexpr std::size_t least_segment = std::size_t{1} << 20;
inline constexpr std::size_t looked_at_once = 256;

/// Each new segment is a quarter of what is reserved already, so that their number grows with the logarithm of the bytes.
inline std::size_t next_segment(std::size_t reserved, std::size_t needed, std::size_t limit) noexcept {
    std::size_t size = (std::max)(least_segment, reserved / 4 / page_size() * page_size());
    if (limit - reserved < size) size = (limit - reserved) / page_size() * page_size();
    return (std::max)(size, needed);
}

inline bool cut_slot(PoolState& pool, std::size_t size, bool writers, Region*& region, std::size_t& offset) {
    for (Region* candidate : pool.regions)
        if (candidate->writers == writers && take_range(*candidate, size, offset)) return region = candidate, true;
    return false;
}

/// A slot that is free already, or that has come back. Call with the lock.
inline bool find_slot(PoolState& pool, std::size_t size, bool writers, std::size_t look, Region*& region, std::size_t& offset) {
    if (cut_slot(pool, size, writers, region, offset)) return true;
    return take_back(pool, look) && cut_slot(pool, size, writers, region, offset);
}

/// Makes room below the limit by giving back idle segments that are of the other kind or too small; false if it cannot.
inline bool may_grow(Registry& r, PoolState& pool, std::size_t size, Dead& dead) {
    if (size > pool.limit) return false;
    if (pool.limit - pool.reserved() >= size) return true;
    trim_pool(r, pool, 0, dead);
    return pool.limit - pool.reserved() >= size;
}

inline Hold start_slot(Region& region, std::size_t offset, std::size_t size) {
    Slot& slot = region.by_offset[offset];
    slot = Slot{};
    slot.size = size;
    return hold_slot(region, offset, slot);
}

/// A slot of `bytes` in a region of the kind that is asked for.
inline Result<Hold> allocate(PoolState& pool, std::size_t bytes, bool writers, [[maybe_unused]] const Deadline& deadline) {
    const Result<std::size_t> pages = whole_pages(bytes);
    if (!pages) return pages.error();
    const std::size_t size = *pages;
    Registry& r = registry();
    [[maybe_unused]] int waits = 0;
    for (std::size_t look = looked_at_once;; look = SIZE_MAX) {
        std::size_t wanted = 0;
        Dead dead;
        {
            Guard guard(r.mutex);
            Region* region = nullptr;
            std::size_t offset = 0;
            if (find_slot(pool, size, writers, look, region, offset)) return start_slot(*region, offset, size);
            if (may_grow(r, pool, size, dead)) wanted = next_segment(pool.reserved(), size, pool.limit);
        }
        dead.clear();  // released before more memory is asked for
        if (wanted == 0) {
            if (look != SIZE_MAX) continue;  // everything that is lent is checked before any wait
            if (size > pool.limit)
                return Error(ErrorCode::out_of_memory,
                             concat({"no memory for ", bytes, " bytes: the pool's limit is ", pool.limit}));
#if defined(_WIN32)
            return unsupported();
#else
            if (deadline.left() == 0)
                return Error(deadline.is_patient() ? ErrorCode::timed_out : ErrorCode::out_of_memory,
                             concat({"no memory for ", bytes, " bytes: the pool's limit of ", pool.limit,
                                     " is in use, and none of it came back in time"}));
            // Nothing notifies us that a lease has ended, so we poll: often at first, then at a negligible cost.
            if (++waits <= 20)
                ::usleep(50);
            else if (auto waited = deadline.wait_for(-1, 0, "no memory of the pool came back", 1); !waited)
                return std::move(waited).error();
            continue;
#endif
        }
        auto made = make_region(RegionKind::pool, wanted, writers);
        if (!made && wanted > size) made = make_region(RegionKind::pool, size, writers);
        if (!made) return std::move(made).error();
        Region* region = made->release();
        Guard guard(r.mutex);
        add_region(r, region);
        region->pool = &pool;
        region->users = 1;
        region->free_bytes = 0;
        free_range(*region, 0, region->size);
        pool.regions.push_back(region);
        std::size_t offset = 0;
        (void)take_range(*region, size, offset);
        return start_slot(*region, offset, size);
    }
}

}  // namespace impl

/// Shared memory for many tensors, recycled: few segments and descriptors, and warm pages. A slot comes back with the last view
/// of it in any process, also when a receiver is killed. Tensors keep their memory alive, not the pool.
///
/// Receivers map the whole segment that a tensor lies in, so a process that gets one tensor of a pool may read all of it: use a
/// pool for each group of processes that trust each other that far.
class Pool {
public:
    explicit Pool(PoolOptions options = {}) : state_(std::make_unique<impl::PoolState>()) {
        state_->limit = options.limit;
        state_->idle_limit = options.idle_limit;
        impl::Registry& r = impl::registry();
        impl::Guard guard(r.mutex);
        r.pools.insert(state_.get());
    }
    Pool(Pool&&) noexcept = default;
    Pool& operator=(Pool&&) = delete;
    ~Pool() {
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

    /// A new, row-major, writable tensor at the beginning of a page; what it holds is not defined. `most` is the access that it
    /// is meant for: memory moves once, with a copy, if another kind is asked of send(). Where the pool's limit is reached the
    /// call waits for memory that others still use.
    Result<Tensor> empty(const Shape& shape, DType dtype, Access most = Access::read_only,
                         const Wait& wait = {.timeout_ms = 0}) {
        const Result<std::size_t> bytes = impl::bytes_of(shape, dtype);
        if (!bytes) return bytes.error();
        Result<impl::Hold> hold = impl::allocate(*state_, *bytes, most == Access::shared, impl::Deadline(wait));
        if (!hold) return std::move(hold).error();
        void* data = hold->data();
        return impl::make_tensor([&] { return TensorSpec(data, dtype, shape); }, std::move(*hold));
    }

    /// A copy of host memory, by request. Strides stay as they are where the elements lie dense, in whatever order of
    /// dimensions and direction; anything else becomes row-major.
    Result<Tensor> share(const Tensor& tensor, Access most = Access::read_only, const Wait& wait = {.timeout_ms = 0}) {
        const DLTensor& t = tensor.descriptor();
        if (!tensor.device().is_host())
            return Error(ErrorCode::bad_device,
                         impl::concat({"argument 'tensor': on ", tensor.device(), "; wanted host memory"}));
        Result<impl::Hold> hold =
            impl::allocate(*state_, static_cast<std::size_t>(tensor.nbytes()), most == Access::shared, impl::Deadline(wait));
        if (!hold) return std::move(hold).error();
        char* data = hold->data();
        std::int64_t first = 0, last = 0;
        const bool packed = tensor.dtype().is_subbyte() && !tensor.is_padded();
        const bool dense = tensor.numel() != 0 && impl::reach(t, tensor.is_padded(), first, last) &&
                           (packed || layout::is_dense(t.shape, t.strides, t.ndim));
        if (dense)
            std::memcpy(data, static_cast<char*>(tensor.data()) + first, static_cast<std::size_t>(tensor.nbytes()));
        else
            isthmus::detail::copy_elements(t, data);
        return impl::make_tensor(
            [&] {
                TensorSpec spec(dense ? data - first : data, tensor.dtype(), tensor.shape());
                if (dense) spec.set_strides(tensor.strides());
                spec.padded = tensor.is_padded();
                return spec;
            },
            std::move(*hold));
    }

    /// The pool's numbers now, in O(segments).
    PoolStats stats() const {
        impl::Guard guard(impl::registry().mutex);
        PoolStats stats;
        stats.segments = state_->regions.size();
        stats.reserved = state_->reserved();
        stats.lent = state_->lent.size();
        for (const impl::Region* region : state_->regions) stats.free += region->free_bytes;
        return stats;
    }

    /// Takes back all that is no longer lent, and gives unused segments back to the system.
    void trim() {
        impl::Dead dead;
        impl::Registry& r = impl::registry();
        impl::Guard guard(r.mutex);
        (void)impl::take_back(*state_, SIZE_MAX);
        impl::trim_pool(r, *state_, 0, dead);
    }

    /// The one of this process, without a limit; never destroyed.
    ISTHMUS_EXPORT static Pool& process() {
        static Pool* const pool = new Pool;
        return *pool;
    }

    impl::PoolState& state() const noexcept { return *state_; }

private:
    std::unique_ptr<impl::PoolState> state_;
};

/// As Pool::empty(), from the process's own pool.
inline Result<Tensor> empty(const Shape& shape, DType dtype, Access most = Access::read_only) {
    return Pool::process().empty(shape, dtype, most);
}

/// Whether the elements are where send() can hand them over.
inline bool is_shared(const Tensor& tensor) {
    if (!tensor || !tensor.device().is_host() || tensor.numel() == 0) return false;
    std::int64_t first = 0, last = 0;
    if (!impl::reach(tensor.descriptor(), tensor.is_padded(), first, last)) return false;
    const auto data = reinterpret_cast<std::uintptr_t>(tensor.data());
    impl::Place place;
    impl::Registry& r = impl::registry();
    impl::Guard guard(r.mutex);
    return impl::find_place(r, data + static_cast<std::uintptr_t>(first), data + static_cast<std::uintptr_t>(last), place);
}

/// The tensor in memory that can be sent: as it is where it is there already, else a copy in the pool, as Pool::share() makes
/// it.
inline Result<Tensor> share(const Tensor& tensor, Access most = Access::read_only, Pool& pool = Pool::process(),
                            const Wait& wait = {.timeout_ms = 0}) {
    if (is_shared(tensor)) return tensor;
    return pool.share(tensor, most, wait);
}

}  // namespace shared

ISTHMUS_END
