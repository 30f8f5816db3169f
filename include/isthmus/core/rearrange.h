// The arithmetic behind slice(), select(), reshape(), transpose() and broadcast_to().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/error.h>
#include <isthmus/core/layout.h>

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_COLD Error rearrange_error(const char* call, std::string_view text, ErrorCode code = ErrorCode::bad_layout);

/// Resolves a dimension: negative ones count from the end. Throws Error(bad_argument) if it does not exist.
int dimension_of(const char* call, int dimension, int ndim);
/// Resolves an index: negative ones count from the end. Throws Error(bad_argument) if it does not exist.
std::int64_t index_of(const char* call, std::int64_t index, int dimension, std::int64_t size);

/// Some elements of one dimension: those of [start, stop), every `step`th. Negative bounds count from the end, and
/// bounds outside the dimension are clipped, as in Python's slices.
struct Slice {
    std::int64_t offset = 0;  ///< how many elements further the first one is
    std::int64_t size = 0;
    std::int64_t stride = 0;

    Slice(std::int64_t size_before, std::int64_t stride_before, std::int64_t start, std::int64_t stop,
          std::int64_t step);
};

/// Moves the first element by `offset` elements. Throws Error(bad_layout) if it would begin within a byte of a packed
/// type.
void move_first_element(DLTensor& t, std::int64_t offset, bool padded);
/// Writes the sizes of `wanted`, one of which may be -1 and then follows from the others. Throws Error(bad_layout) if
/// they do not hold exactly the elements of `shape`.
void resolve_shape(const std::int64_t* shape, int ndim, const std::int64_t* wanted, int wanted_ndim, std::int64_t* out);
/// Writes the strides that give the same memory another shape with as many elements. Throws Error(bad_layout) if that
/// needs a copy.
void reshape_strides(const std::int64_t* shape, const std::int64_t* strides, int ndim, const std::int64_t* wanted,
                     int wanted_ndim, std::int64_t* out);
/// Writes the strides that repeat dimensions of size 1 and add new ones in front. Throws Error(bad_layout).
void broadcast_strides(const std::int64_t* shape, const std::int64_t* strides, int ndim, const std::int64_t* wanted,
                       int wanted_ndim, std::int64_t* out);
/// Writes the order of the dimensions; empty `axes` reverse it. Throws Error(bad_argument) if `axes` is not a
/// permutation.
void resolve_axes(std::span<const std::int64_t> axes, int ndim, int* out);

}  // namespace detail

ISTHMUS_END
