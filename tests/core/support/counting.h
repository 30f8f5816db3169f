// Tensors to read from: their elements tell where they lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <isthmus/isthmus.h>

namespace isthmus_test {

/// `count` floats, 0, 1, 2 and so on, row-major in this shape.
inline isthmus::Tensor counting(const isthmus::Shape& shape, std::size_t count) {
    std::vector<float> elements(count);
    std::iota(elements.begin(), elements.end(), 0.f);
    return isthmus::Tensor::own(std::move(elements), shape);
}

}  // namespace isthmus_test
