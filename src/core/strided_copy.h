// Copies of strided elements: loops by the width of an element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/compiler.h>
#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

/// Elements that are as far apart as the steps say, in bytes.
struct Moved {
    const char* from;
    std::int64_t from_step;
    char* to;
    std::int64_t to_step;
    std::int64_t count;
};
/// Elements of 1, 2, 4, 8 or 16 bytes.
void move_elements(const Moved& moved, int log2_width) noexcept;
inline int log2_of(std::int64_t width) noexcept { return trailing_zeros(static_cast<unsigned long long>(width)); }

}  // namespace detail

ISTHMUS_END
