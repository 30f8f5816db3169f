// SPDX-License-Identifier: Apache-2.0
// The nearest point to each query by nanoflann, and its gradient: on plain pointers to
// row-major memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <nanoflann.hpp>

namespace nearest {

using Index = std::int32_t;  // JAX has no int64 unless it is told to

/// nanoflann's requirements for a set of points, which are not copied.
struct Cloud {
    const float* points;
    std::size_t n, d;
    std::size_t kdtree_get_point_count() const { return n; }
    float kdtree_get_pt(std::size_t i, std::size_t k) const {
        return points[i * d + k];
    }
    template <class Box>
    bool kdtree_get_bbox(Box&) const {
        return false;
    }
};
using Tree =
    nanoflann::KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<float, Cloud>,
                                        Cloud, -1, Index>;

/// Squared distances of m queries to the nearest of n points of d dimensions, and which
/// ones those are.
inline void search(const float* points, const float* queries, std::size_t n,
                   std::size_t m, std::size_t d, float* distances, Index* indices) {
    if (n == 0) throw std::invalid_argument("argument 'points' has no points");
    const Cloud cloud{points, n, d};
    Tree tree(static_cast<int>(d), cloud);
    tree.buildIndex();
    for (std::size_t i = 0; i < m; ++i) {
        nanoflann::KNNResultSet<float, Index> found(1);
        found.init(indices + i, distances + i);
        tree.findNeighbors(found, queries + i * d, nanoflann::SearchParams());
    }
}

/// The distances' gradient with respect to the points and the queries; the indices have
/// none.
inline void search_gradient(const float* grad, const float* points,
                            const float* queries, std::size_t n, std::size_t m,
                            std::size_t d, float* grad_points, float* grad_queries) {
    std::vector<float> distances(m);
    std::vector<Index> indices(m);
    search(points, queries, n, m, d, distances.data(), indices.data());
    for (std::size_t k = 0; k < n * d; ++k) grad_points[k] = 0;
    for (std::size_t i = 0; i < m; ++i)
        for (std::size_t k = 0; k < d; ++k) {
            const std::size_t j = static_cast<std::size_t>(indices[i]) * d + k;
            grad_queries[i * d + k] = 2 * grad[i] * (queries[i * d + k] - points[j]);
            grad_points[j] -= grad_queries[i * d + k];
        }
}

}  // namespace nearest
