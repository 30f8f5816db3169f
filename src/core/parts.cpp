// Tensor::select(), slice(), transpose(), reshape(), broadcast_to() and contiguous().
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <isthmus/core/copy.h>
#include <isthmus/core/rearrange.h>

ISTHMUS_BEGIN

/// `offset` counts elements from the first one.
Tensor Tensor::part(std::int64_t offset, int ndim, const std::int64_t* shape, const std::int64_t* strides) const {
    DLTensor t = block_->dl;
    t.ndim = ndim;
    t.shape = const_cast<std::int64_t*>(shape);
    t.strides = const_cast<std::int64_t*>(strides);
    detail::move_first_element(t, offset, is_padded());
    return alias(t, flags() & (flag::read_only | flag::padded));
}

Tensor Tensor::select(int dimension, std::int64_t i) const {
    const int d = detail::dimension_of("select", dimension, ndim());
    const std::int64_t index = detail::index_of("select", i, d, block_->dl.shape[d]);
    std::int64_t sizes[max_ndim], steps[max_ndim];
    for (int from = 0, to = 0; from < ndim(); ++from) {
        if (from == d) continue;
        sizes[to] = block_->dl.shape[from];
        steps[to++] = block_->dl.strides[from];
    }
    return part(numel() == 0 ? 0 : index * block_->dl.strides[d], ndim() - 1, sizes, steps);
}

Tensor Tensor::slice(int dimension, std::int64_t start, std::int64_t stop, std::int64_t step) const {
    const int d = detail::dimension_of("slice", dimension, ndim());
    std::int64_t sizes[max_ndim], steps[max_ndim];
    for (int i = 0; i < ndim(); ++i) {
        sizes[i] = block_->dl.shape[i];
        steps[i] = block_->dl.strides[i];
    }
    const detail::Slice cut(sizes[d], steps[d], start, stop, step);
    const std::int64_t offset = cut.size == 0 || numel() == 0 ? 0 : cut.offset * steps[d];
    sizes[d] = cut.size;
    steps[d] = cut.stride;
    return part(offset, ndim(), sizes, steps);
}

Tensor Tensor::transpose(const Shape& axes) const {
    int from[max_ndim];
    detail::resolve_axes(axes, ndim(), from);
    std::int64_t sizes[max_ndim], steps[max_ndim];
    for (int i = 0; i < ndim(); ++i) {
        sizes[i] = block_->dl.shape[from[i]];
        steps[i] = block_->dl.strides[from[i]];
    }
    return part(0, ndim(), sizes, steps);
}

Tensor Tensor::reshape(const Shape& shape) const {
    const int wanted = static_cast<int>(shape.size());
    std::int64_t sizes[max_ndim], steps[max_ndim];
    detail::resolve_shape(block_->dl.shape, ndim(), shape.data(), wanted, sizes);
    detail::reshape_strides(block_->dl.shape, block_->dl.strides, ndim(), sizes, wanted, steps);
    return part(0, wanted, sizes, steps);
}

Tensor Tensor::broadcast_to(const Shape& shape) const {
    const int wanted = static_cast<int>(shape.size());
    std::int64_t steps[max_ndim];
    detail::broadcast_strides(block_->dl.shape, block_->dl.strides, ndim(), shape.data(), wanted, steps);
    return part(0, wanted, shape.data(), steps);
}

Tensor Tensor::contiguous() const {
    if (!is_contiguous()) return copy_of(*this).value();
    std::int64_t steps[max_ndim];
    (void)layout::row_major(block_->dl.shape, ndim(), steps);
    // The strides of sizes of 1 say nothing, but others (BLAS, TMA descriptors) read them all the same.
    if (std::equal(steps, steps + ndim(), block_->dl.strides)) return *this;
    return part(0, ndim(), block_->dl.shape, steps);
}

ISTHMUS_END
