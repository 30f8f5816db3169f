// Strides in bytes, as the buffer protocol and the array interfaces have them, as strides in elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import_request.h"

ISTHMUS_BEGIN

namespace detail {

/// Divides strides in bytes by the size of an element; false if one is not a multiple of it.
inline bool element_strides(const Py_ssize_t* bytes, int ndim, std::int64_t itemsize, std::int64_t* out) noexcept {
    if (ISTHMUS_LIKELY((itemsize & (itemsize - 1)) == 0)) {
        const int shift = __builtin_ctzll(static_cast<unsigned long long>(itemsize));
        std::int64_t rest = 0;
        for (int i = 0; i < ndim; ++i) {
            rest |= bytes[i] & (itemsize - 1);
            out[i] = bytes[i] >> shift;
        }
        return rest == 0;
    }
    for (int i = 0; i < ndim; ++i) {
        if (bytes[i] % itemsize != 0) return false;
        out[i] = bytes[i] / itemsize;
    }
    return true;
}

/// The same, but dimensions that are never stepped along may have any stride: theirs become row-major.
ISTHMUS_NOINLINE inline bool element_strides_that_matter(ImportRequest& request, const Py_ssize_t* bytes) {
    const DLTensor& t = request.out.dl();
    const std::int64_t itemsize = DType(t.dtype).itemsize();
    std::int64_t numel = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::row_major(t.shape, t.ndim, t.strides))
        return request.fail_unsound(t, 0);
    if (numel == 0) return true;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] == 1) continue;
        if (bytes[i] % itemsize != 0)
            return request.fail(ErrorCode::needs_copy,
                                {"the stride of dimension ", i, " is ", bytes[i], " bytes, no multiple of the ", itemsize,
                                 "-byte element; copy it first"});
        t.strides[i] = bytes[i] / itemsize;
    }
    return true;
}

}  // namespace detail

ISTHMUS_END
