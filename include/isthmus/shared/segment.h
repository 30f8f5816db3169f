// A segment: sealed memory without a name that other processes map by its descriptor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <isthmus/core/empty.h>
#include <isthmus/shared/pool_state.h>

ISTHMUS_BEGIN

namespace shared {

namespace impl {

/// `bytes` in whole pages, one at least.
inline Result<std::size_t> whole_pages(std::size_t bytes) {
    const std::size_t page = page_size();
    if (bytes > static_cast<std::size_t>(INT64_MAX) - page)
        return Error(ErrorCode::overflow, concat({"a segment of ", bytes, " bytes is larger than the address space"}));
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
        return Error(ErrorCode::bad_layout, ErrorKind::value,
                     concat({"argument 'shape': ", shape.size(), " dimensions; wanted at most ", max_ndim}));
    try {
        return static_cast<std::size_t>(isthmus::detail::bytes_of_new(shape.data(), static_cast<int>(shape.size()), dtype, 0));
    } catch (Error& error) {
        return std::move(error);
    }
}

/// What wrap_spec() throws, as a Result.
template <class Describe>
Result<Tensor> make_tensor(Describe&& describe, Hold hold) {
    try {
        return Tensor::wrap_spec(std::forward<Describe>(describe), std::move(hold));
    } catch (Error& error) {
        return std::move(error);
    }
}

}  // namespace impl

/// Memory of this process that others can map: reserved whole, of a size that never changes, and without a name, so that the
/// kernel frees it when the last process that has it is gone, however it ended.
class Segment {
public:
    /// At least `nbytes` bytes, in whole pages, all zero. `most` is what receivers may ever be allowed: under `shared` they may
    /// map it writable, otherwise the kernel keeps every writer but this process away.
    static Result<Segment> create(std::size_t nbytes, Access most = Access::read_only) {
        auto made = impl::make_region(impl::RegionKind::segment, nbytes, most == Access::shared);
        if (!made) return std::move(made).error();
        impl::Region* region = made->release();
        impl::Registry& r = impl::registry();
        impl::Guard guard(r.mutex);
        impl::add_region(r, region);
        impl::Slot& slot = region->by_offset[0];
        slot.size = region->size;
        return Segment(std::make_shared<impl::Hold>(impl::hold_slot(*region, 0, slot)));
    }
    /// The first byte of this process's mapping, at the beginning of a page.
    void* data() const noexcept { return hold_->region().map.data(); }
    /// Bytes, a multiple of the page size.
    std::size_t size() const noexcept { return hold_->region().size; }
    /// The memfd, for system calls; it stays this object's.
    int descriptor() const noexcept { return hold_->region().file.get(); }
    /// Whether `shared` may be allowed.
    bool allows_writers() const noexcept { return hold_->region().writers; }

    /// A row-major tensor that begins `byte_offset` bytes into the segment and keeps it alive.
    Result<Tensor> tensor(const Shape& shape, DType dtype, std::size_t byte_offset = 0) const {
        const Result<std::size_t> bytes = impl::bytes_of(shape, dtype);
        if (!bytes) return bytes.error();
        if (byte_offset > size() || *bytes > size() - byte_offset)
            return Error(
                ErrorCode::bad_layout, ErrorKind::value,
                impl::concat({"argument 'shape': ", isthmus::detail::sizes_text(shape.data(), static_cast<int>(shape.size())),
                              " of ", dtype, " needs ", *bytes, " bytes from ", byte_offset, "; the segment has ", size()}));
        try {
            return Tensor::wrap(static_cast<char*>(data()) + byte_offset, shape, {}, dtype, Device::cpu(), hold_);
        } catch (Error& error) {
            return std::move(error);
        }
    }

private:
    explicit Segment(std::shared_ptr<impl::Hold> hold) noexcept : hold_(std::move(hold)) {}
    std::shared_ptr<impl::Hold> hold_;
};

}  // namespace shared

ISTHMUS_END
