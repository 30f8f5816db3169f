// How the C interface describes a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "names.h"

namespace isthmus_c {

/// A description whose sizes come as C pointers.
inline isthmus::TensorSpec make_spec(void* data, isthmus::DType dtype, isthmus::Device device, const int64_t* shape,
                                     const int64_t* strides, int32_t ndim, uint32_t flags) {
    using isthmus::Error;
    using isthmus::ErrorCode;
    if (ndim < 0 || ndim > isthmus::max_ndim)
        throw Error(ErrorCode::bad_layout,
                    "argument 'ndim': " + std::to_string(ndim) + "; wanted 0 to " + std::to_string(isthmus::max_ndim));
    if (ndim > 0 && shape == nullptr)
        throw Error(ErrorCode::bad_layout,
                    "argument 'shape': NULL; wanted " + std::to_string(ndim) + " sizes, one per dimension");
    if ((flags & ~uint32_t{ISTHMUS_FLAG_READ_ONLY | ISTHMUS_FLAG_PADDED}) != 0)
        throw Error(ErrorCode::bad_argument, "argument 'flags': " + std::to_string(flags) +
                                                 "; wanted a combination of ISTHMUS_FLAG_READ_ONLY (" +
                                                 std::to_string(ISTHMUS_FLAG_READ_ONLY) + ") and ISTHMUS_FLAG_PADDED (" +
                                                 std::to_string(ISTHMUS_FLAG_PADDED) + ")");
    const auto count = static_cast<std::size_t>(ndim);
    isthmus::TensorSpec spec(data, dtype, std::span<const int64_t>(shape, count));
    if (strides != nullptr) spec.set_strides(std::span<const int64_t>(strides, count));
    spec.device = device;
    spec.read_only = (flags & ISTHMUS_FLAG_READ_ONLY) != 0;
    spec.padded = (flags & ISTHMUS_FLAG_PADDED) != 0;
    return spec;
}

inline uint32_t flags_of(const isthmus::Tensor& t) noexcept {
    return (t.read_only() ? uint32_t{ISTHMUS_FLAG_READ_ONLY} : 0) | (t.is_padded() ? uint32_t{ISTHMUS_FLAG_PADDED} : 0);
}

}  // namespace isthmus_c
