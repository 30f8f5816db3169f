// copy_of: a row-major copy of host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

/// A row-major copy of host memory, element by element: the one place where Isthmus touches the elements, and only on
/// request. Keeps the dtype and the sub-byte layout; the result is writable and flagged IS_COPIED (DLPack 1.3). NULL
/// strides mean row-major; the elements may lie at any address, aligned or not. An Error if the descriptor is unsound
/// or not on the host.
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

/// The bytes of a new row-major tensor, sub-byte elements packed. Throws Error, which names the argument, if it cannot
/// be, or if fewer than `spare` bytes are left beside it.
std::int64_t bytes_of_new(const std::int64_t* shape, int ndim, DType dtype, std::int64_t spare);

}  // namespace detail

ISTHMUS_END
