// An operator with two results whose gradient takes one of them: the largest element of each row, and its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/op.h>  // Python.h must come before any standard header

namespace operators_test {

using isthmus::Out, isthmus::sizes, isthmus::View;

/// Of each row the largest element, and where it is.
template <class T>
void row_max(View<const T, 2, sizes<"n k">> x, Out<T, 1, sizes<"n">> values, Out<std::int64_t, 1, sizes<"n">> where) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < x.extent(1); ++j)
            if (x(i, j) > x(i, best)) best = j;
        values(i) = x(i, best);
        where(i) = best;
    }
}
/// Reads nothing of x but its sizes.
template <class T>
void row_max_gradient(View<const T, 1, sizes<"rows">> g, View<const std::int64_t, 1, sizes<"rows">> where,
                      Out<T, 2, sizes<"rows columns">> dx) {
    for (std::int64_t i = 0; i < dx.extent(0); ++i)
        for (std::int64_t j = 0; j < dx.extent(1); ++j) dx(i, j) = j == where(i) ? g(i) : T(0);
}

}  // namespace operators_test
