// The rows of a tensor of the host, one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

/// Calls row(first, step, count) with every row of the last dimension, in row-major order: elements of whole bytes,
/// `step` elements apart. The strides must not be NULL.
template <class Row>
void walk_rows(const DLTensor& t, Row&& row) noexcept {
    for (int d = 0; d < t.ndim; ++d)
        if (t.shape[d] == 0) return;
    const char* from = static_cast<const char*>(t.data) + t.byte_offset;
    const int inner = t.ndim - 1;
    if (inner < 0) return row(from, std::int64_t{1}, std::int64_t{1});
    const std::int64_t itemsize = DType(t.dtype).itemsize();
    std::int64_t index[max_ndim] = {};
    for (;;) {
        row(from, t.strides[inner], t.shape[inner]);
        int d = inner - 1;
        // Steps only if there is a next element: the stride of a dimension of size 1 may be anything.
        for (; d >= 0; --d) {
            if (++index[d] < t.shape[d]) {
                from += t.strides[d] * itemsize;
                break;
            }
            from -= t.strides[d] * (t.shape[d] - 1) * itemsize;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace detail

ISTHMUS_END
