// How far the elements of a tensor reach from the first one, in bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>
#include <isthmus/shared/file.h>

ISTHMUS_BEGIN

namespace shared::impl {

/// The first and last byte of the elements, from the first element; {0, -1} without elements. False when they overflow.
inline bool reach(const DLTensor& t, bool padded, std::int64_t& first, std::int64_t& last) {
    std::int64_t numel = 0, nbytes = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::nbytes(numel, t.dtype, padded, nbytes)) return false;
    first = 0;
    last = nbytes - 1;
    if (numel == 0 || (DType(t.dtype).is_subbyte() && !padded)) return true;
    return layout::extent(t.shape, t.strides, t.ndim, DType(t.dtype).itemsize(), first, last);
}

}  // namespace shared::impl

ISTHMUS_END
