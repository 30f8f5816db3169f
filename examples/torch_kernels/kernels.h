// SPDX-License-Identifier: Apache-2.0
// Three kernels on row-major memory, of the sort that libraries for torch have. Both
// bindings, with_isthmus.cpp and by_hand.cpp, call them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace kernels {

using Index = std::int64_t;

/// The largest element of each column in each segment of x, and the row it is in; 0 and
/// -1 for a segment without rows. Segment i has the rows from starts[i] to starts[i +
/// 1].
template <class T>
void segment_max(const T* x, Index all, const Index* starts, Index segments,
                 Index columns, T* largest, Index* rows) {
    for (Index i = 0; i < segments; ++i) {
        const Index first = starts[i], last = starts[i + 1];
        if (first < 0 || first > last || last > all)
            throw std::invalid_argument("argument 'starts': a segment is outside of x");
        T* best = largest + i * columns;
        Index* where = rows + i * columns;
        std::fill_n(where, columns, first < last ? first : -1);
        if (first == last) std::fill_n(best, columns, T{0});
        if (first < last) std::copy_n(x + first * columns, columns, best);
        for (Index r = first + 1; r < last; ++r)
            for (Index j = 0; j < columns; ++j)
                if (x[r * columns + j] > best[j]) {
                    best[j] = x[r * columns + j];
                    where[j] = r;
                }
    }
}

/// The gradient of x has that of the largest elements where they were, and is 0
/// elsewhere.
template <class T>
void segment_max_gradient(const T* grad, const Index* rows, Index segments,
                          Index columns, T* grad_x, Index all) {
    std::fill_n(grad_x, all * columns, T{0});
    for (Index i = 0; i < segments * columns; ++i)
        if (rows[i] >= 0) grad_x[rows[i] * columns + i % columns] += grad[i];
}

/// How much of two boxes (x0, y0, x1, y1) is common to both.
inline float overlap(const float* a, const float* b) {
    const auto area = [](const float* c) { return (c[2] - c[0]) * (c[3] - c[1]); };
    const float w = std::min(a[2], b[2]) - std::max(a[0], b[0]);
    const float h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    const float both = std::max(w, 0.0F) * std::max(h, 0.0F);
    return both / (area(a) + area(b) - both);
}

/// Non-maximum suppression: the boxes that no better one overlaps by more than the
/// threshold, the best first. Returns how many there are.
inline Index nms(const float* boxes, const float* scores, Index n, double threshold,
                 Index* keep) {
    std::vector<Index> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return scores[a] > scores[b]; });
    const auto limit = static_cast<float>(threshold);
    Index count = 0;
    for (const Index i : order)
        if (std::none_of(keep, keep + count, [&](Index k) {
                return overlap(boxes + 4 * k, boxes + 4 * i) > limit;
            }))
            keep[count++] = i;
    return count;
}

/// Writes rows into a cache, each to its place; a negative place is left out.
template <class T>
void put_rows(T* cache, Index size, const Index* places, const T* rows, Index count,
              Index columns) {
    if (std::any_of(places, places + count, [&](Index p) { return p >= size; }))
        throw std::out_of_range("argument 'places': a place is outside of the cache");
    for (Index i = 0; i < count; ++i)
        if (places[i] >= 0)
            std::copy_n(rows + i * columns, columns, cache + places[i] * columns);
}

}  // namespace kernels
