// Tensor: how it takes over memory, and how its description is checked.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/tensor.h>

#include "validate.h"

ISTHMUS_BEGIN

namespace detail {

Error too_many_dims(std::size_t found) {
    return make_error(ErrorCode::bad_layout, ErrorKind::value,
                      {"shape has ", found, " dimensions; expected at most ", max_ndim});
}
Error no_memory_for_owner(std::size_t bytes) {
    return make_error(ErrorCode::out_of_memory, {"no memory for a tensor of ", bytes, " bytes"});
}
static ISTHMUS_COLD Error no_memory_for_handle() {
    return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
}
static ISTHMUS_COLD Error wrong_count(const std::int64_t* sizes, int ndim, const char* whose, std::size_t held) {
    return make_error(
        ErrorCode::bad_layout, ErrorKind::value,
        {"argument 'shape': ", sizes_text(sizes, ndim), " does not hold the ", whose, " ", held, " elements"});
}

static DLTensor descriptor_of(const TensorSpec& spec) noexcept {
    return {spec.data,
            spec.device,
            spec.ndim,
            spec.dtype,
            const_cast<std::int64_t*>(spec.shape),
            spec.has_strides ? const_cast<std::int64_t*>(spec.strides) : nullptr,
            spec.byte_offset};
}
static Flags flags_of(const TensorSpec& spec) noexcept {
    return (spec.read_only ? flag::read_only : 0) | (spec.padded ? flag::padded : 0);
}
static ISTHMUS_COLD Error unsound(const DLTensor& t, Flags flags) {
    const Error error = explain_unsound(t, flags, nullptr);
    return Error(error.code(), ErrorKind::value, error.what());
}
static void check_sound(const DLTensor& t, Flags flags) {
    if (ISTHMUS_UNLIKELY(!is_sound(t, flags))) throw unsound(t, flags);
}

void OwnedHead::reserve_more_dims(int ndim) {
    more_dims = static_cast<std::int64_t*>(std::malloc(2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t)));
    if (more_dims == nullptr) throw make_error(ErrorCode::out_of_memory, {"no memory for ", ndim, " dimensions"});
    place_dims(&block, ndim, more_dims);
}

void OwnedHead::complete(const TensorSpec& spec, Flags flags) {
    const DLTensor t = descriptor_of(spec);
    check_sound(t, flags_of(spec));
    reserve_dims(spec.ndim);
    detail::describe(&block, t, flags_of(spec) | flags);
    announce(&block);
}

void OwnedHead::check_row_major() const {
    DLTensor t = block.dl;
    t.strides = nullptr;
    check_sound(t, block.flags);
}
Error OwnedHead::wrong_count(const std::int64_t* sizes, int ndim, std::int64_t held) {
    return detail::wrong_count(sizes, ndim, "container's", static_cast<std::size_t>(held));
}

}  // namespace detail

TensorSpec::TensorSpec(void* data_, DType dtype_, const Shape& sizes) : data(data_), dtype(dtype_) {
    if (sizes.size() > static_cast<std::size_t>(max_ndim)) throw detail::too_many_dims(sizes.size());
    ndim = static_cast<int>(sizes.size());
    for (int i = 0; i < ndim; ++i) shape[i] = sizes[static_cast<std::size_t>(i)];
}
TensorSpec::TensorSpec(const void* data_, DType dtype_, const Shape& sizes)
    : TensorSpec(const_cast<void*>(data_), dtype_, sizes) {
    read_only = true;
}
TensorSpec& TensorSpec::set_strides(const Shape& steps) {
    if (static_cast<int>(steps.size()) != ndim)
        throw detail::make_error(ErrorCode::bad_layout, ErrorKind::value,
                                 {"strides have ", steps.size(), " entries; expected one per dimension, ", ndim});
    for (int i = 0; i < ndim; ++i) strides[i] = steps[static_cast<std::size_t>(i)];
    has_strides = true;
    return *this;
}

TensorSpec Tensor::spec(void* data, const Shape& shape, const Shape& strides, DType dtype, Device device) {
    TensorSpec s(data, dtype, shape);
    if (strides.size() != 0) s.set_strides(strides);
    s.device = device;
    return s;
}
TensorSpec Tensor::spec_of_span(void* data, const Shape& shape, DType dtype, std::size_t count) {
    TensorSpec s(data, dtype, shape);
    std::int64_t n = 0;
    if (!layout::numel(s.shape, s.ndim, n) || static_cast<std::size_t>(n) != count)
        throw detail::wrong_count(s.shape, s.ndim, "span's", count);
    s.padded = dtype.is_subbyte();
    return s;
}

Tensor Tensor::alias(const DLTensor& t, Flags flags) const {
    detail::check_sound(t, flags);
    detail::Block* block = detail::alias_block(block_, t, flags);
    if (block == nullptr) throw detail::no_memory_for_handle();
    return steal(block);
}
Tensor Tensor::alias(const TensorSpec& spec) const {
    return alias(detail::descriptor_of(spec), detail::flags_of(spec) | (flags() & flag::read_only));
}
Tensor Tensor::with_ops(const TensorSpec& spec, const detail::OwnerOps& ops) {
    const DLTensor t = detail::descriptor_of(spec);
    const Flags flags = detail::flags_of(spec);
    detail::check_sound(t, flags);
    detail::Block* block = detail::allocate_block(spec.ndim);
    if (block == nullptr) throw detail::no_memory_for_handle();
    detail::describe(block, t, flags);
    block->ops = &ops;
    return steal(block);
}

Tensor Tensor::as_read_only() const {
    return read_only() ? *this : alias(block_->dl, (flags() & flag::dlpack_known) | flag::read_only);
}
Tensor Tensor::as_strided(void* data, const Shape& shape, const Shape& strides, DType dtype) const {
    TensorSpec s = spec(data, shape, strides, dtype, device());
    s.byte_offset = block_->dl.byte_offset;
    return alias(detail::descriptor_of(s), flags() & (flag::read_only | flag::padded));
}

ISTHMUS_END
