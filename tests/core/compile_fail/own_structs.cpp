// SPDX-License-Identifier: Apache-2.0
// A struct has no dtype: the error says how its numbers are described.
// expect: the container's elements have no dtype
#include <vector>

#include <isthmus/isthmus.h>

struct Point {
    float x, y, z;
};
#if !defined(ISTHMUS_MUST_FAIL)
template <>
struct isthmus::tensor_traits<std::vector<Point>> {
    static TensorSpec describe(std::vector<Point>& points) {
        return {points.data(), float32, {static_cast<std::int64_t>(points.size()), 3}};
    }
};
#endif
isthmus::Tensor take(std::vector<Point> points) { return isthmus::Tensor::own(std::move(points)); }
