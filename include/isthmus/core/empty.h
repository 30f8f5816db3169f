// Tensor::empty: new, aligned memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include <isthmus/core/system.h>
#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

namespace detail {
/// The bytes of a new row-major tensor, sub-byte elements packed. Throws Error, which names the argument, where it cannot be,
/// or where fewer than `spare` bytes are left beside it.
ISTHMUS_API std::int64_t bytes_of_new(const std::int64_t* shape, int ndim, DType dtype, std::int64_t spare);
}  // namespace detail

#if ISTHMUS_DEFINE
namespace detail {

ISTHMUS_API std::int64_t bytes_of_new(const std::int64_t* shape, int ndim, DType dtype, std::int64_t spare) {
    if (!dtype.is_valid())
        throw Error(ErrorCode::bad_dtype, ErrorKind::value,
                    concat({"argument 'dtype': ", dtype, " is not one that DLPack 1.3 defines"}));
    for (int i = 0; i < ndim; ++i)
        if (shape[i] < 0)
            throw Error(
                ErrorCode::bad_layout, ErrorKind::value,
                concat({"argument 'shape': ", sizes_text(shape, ndim), " has a negative size; wanted sizes of 0 or more"}));
    std::int64_t numel = 0, nbytes = 0;
    if (!layout::numel(shape, ndim, numel) || !layout::nbytes(numel, dtype, false, nbytes) || nbytes > INT64_MAX - spare)
        throw Error(
            ErrorCode::overflow, ErrorKind::value,
            concat({"argument 'shape': ", sizes_text(shape, ndim), " of ", dtype, " has more bytes than the address space"}));
    return nbytes;
}

}  // namespace detail

// Block and elements share one allocation: the block in front, the elements at the next aligned address behind it. It is
// malloc's: aligned_alloc() costs three times as much, and keeps no small memory for its thread.
ISTHMUS_API Tensor Tensor::empty(const Shape& shape, DType dtype, std::size_t alignment) {
    const TensorSpec spec(static_cast<void*>(nullptr), dtype, shape);
    constexpr std::size_t most = std::size_t{1} << 40;
    if (alignment < 64 || alignment > most || (alignment & (alignment - 1)) != 0)
        throw detail::make_error(ErrorCode::bad_argument,
                                 {"argument 'alignment': ", alignment, " bytes; wanted a power of two from 64 to ", most});
    const std::int64_t nbytes = detail::bytes_of_new(spec.shape, spec.ndim, dtype, 4096 + static_cast<std::int64_t>(alignment));
    const std::size_t header = sizeof(detail::Block) + 2 * static_cast<std::size_t>(spec.ndim) * sizeof(std::int64_t);
    const std::size_t total = header + alignment - 1 + static_cast<std::size_t>(nbytes);
    auto* block = static_cast<detail::Block*>(std::malloc(total));
    if (block == nullptr)
        throw detail::make_error(ErrorCode::out_of_memory,
                                 {"no memory for ", nbytes, " bytes of ", dtype, detail::sizes_text(spec.shape, spec.ndim)});
    detail::prefer_huge_pages(block, total);
    detail::init_block(block, spec.ndim, block->dims());
    const auto behind = (reinterpret_cast<std::uintptr_t>(block) + header + alignment - 1) & ~(alignment - 1);
    const DLTensor t{reinterpret_cast<void*>(behind),       Device::cpu(), spec.ndim, dtype,
                     const_cast<std::int64_t*>(spec.shape), nullptr,       0};
    detail::describe(block, t, 0);
    return steal(detail::announce(block));
}
#endif

ISTHMUS_END
