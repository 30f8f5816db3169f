// copy_of: a row-major copy of host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/empty.h>

ISTHMUS_BEGIN

/// A row-major copy of host memory, element by element: the one place where Isthmus touches the elements, and only when asked.
/// Keeps the dtype and the sub-byte layout; the result is writable and flagged IS_COPIED (DLPack 1.3). NULL strides mean
/// row-major; the elements may lie at any address, aligned or not. An Error where the descriptor is unsound or not of the host.
Result<Tensor> copy_of(const DLTensor& t, Flags flags = 0);
/// The same for a Tensor, a Borrowed or a View: anything that has a descriptor, or an address and sizes.
template <class Source>
    requires(detail::is_view<Source> || requires(const Source& s) { s.descriptor(); })
Result<Tensor> copy_of(const Source& source) {
    if constexpr (detail::is_view<Source>) {
        const DLTensor t{const_cast<void*>(static_cast<const void*>(source.data())),
                         source.device(),
                         source.ndim(),
                         source.dtype(),
                         const_cast<std::int64_t*>(source.shape().data()),
                         const_cast<std::int64_t*>(source.strides().data()),
                         0};
        return copy_of(t, DType(t.dtype).is_subbyte() ? flag::padded : 0);  // no view has packed elements
    } else {
        return copy_of(source.descriptor(), source.flags() & flag::dlpack_known);
    }
}

namespace detail {

/// Writes the elements of host memory to `to`, in row-major order. Elements must be whole bytes.
void copy_elements(const DLTensor& t, char* to) noexcept;

/// Calls row(first, step, count) with every row of the last dimension, in row-major order: elements of whole bytes, `step`
/// elements apart. The strides must not be NULL.
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
        // Steps only where there is a next element: the stride of a dimension of size 1 may be anything.
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
