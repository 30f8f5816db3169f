// Tensor::empty: new, aligned memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <new>

#include <isthmus/core/memory.h>
#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

namespace detail {
/// The bytes of a new row-major tensor, sub-byte elements packed. Throws Error, which names the argument, where it cannot be,
/// or where fewer than `spare` bytes are left beside it.
std::int64_t bytes_of_new(const std::int64_t* shape, int ndim, DType dtype, std::int64_t spare);

/// Takes the memory of new elements back, which a block's owner describes.
void release_new_memory(void* memory);
/// A block of new elements that lie as `t` says, whose data it is given; the caller announces it. Throws Error.
/// nbytes: of all elements; alignment: a power of two from 64 on.
Block* new_elements(DLTensor& t, Flags flags, std::int64_t nbytes, std::size_t alignment);
}  // namespace detail

ISTHMUS_END
