// The calls of a user's day, once with Isthmus's types and once with the binder's own: the same function, two kinds of
// argument. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// What a compiler must not leave out.
inline const void* volatile sink;

/// Three inputs, an output and two numbers: as little work as shows that all of them arrived.
inline void touch(const float* x, const float* y, const float* z, float* out, double scale, long count) {
    sink = x;
    sink = y;
    sink = z;
    out[0] = static_cast<float>(scale) + static_cast<float>(count);
}
inline constexpr std::size_t result_size = 1000;
