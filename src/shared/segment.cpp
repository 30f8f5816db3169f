// Segments: how the memory of a region is made, and the one region of a Segment.
// SPDX-License-Identifier: Apache-2.0
#include "registry.h"

ISTHMUS_BEGIN

namespace shared {

namespace impl {

Result<std::size_t> whole_pages(std::size_t bytes) {
    const std::size_t page = page_size();
    if (bytes > static_cast<std::size_t>(INT64_MAX) - page)
        return make_error(ErrorCode::overflow, {"a segment of ", bytes, " bytes is larger than the address space"});
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

Result<std::unique_ptr<Region>> make_region(RegionKind kind, std::size_t bytes, bool writers) {
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

Result<std::size_t> bytes_of(const Shape& shape, DType dtype) {
    if (shape.size() > static_cast<std::size_t>(max_ndim))
        return value_error(ErrorCode::bad_layout,
                           {"argument 'shape': ", shape.size(), " dimensions; wanted at most ", max_ndim});
    return catch_error([&] {
        return static_cast<std::size_t>(isthmus::detail::bytes_of_new(shape.data(), static_cast<int>(shape.size()), dtype, 0));
    });
}

}  // namespace impl

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
            {"argument 'shape': ", isthmus::detail::sizes_text(shape.data(), static_cast<int>(shape.size())), " of ", dtype,
             " needs ", *bytes, " bytes from ", byte_offset, "; the segment has ", size()});
    return impl::catch_error(
        [&] { return Tensor::wrap(static_cast<char*>(data()) + byte_offset, shape, {}, dtype, Device::cpu(), hold_); });
}

}  // namespace shared

ISTHMUS_END
