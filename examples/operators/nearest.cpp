// SPDX-License-Identifier: Apache-2.0
// The nearest point to each query by nanoflann, with its gradient: one source, an operator of torch, JAX and NumPy.
#include <isthmus/op.h>

#include <stdexcept>
#include <vector>

#include <nanoflann.hpp>

namespace {

using isthmus::c_contiguous, isthmus::Out, isthmus::sizes, isthmus::View;
using Points = View<const float, 2, sizes<"n d">>;
using Queries = View<const float, 2, sizes<"m d">>;
using Index = std::int32_t;  // JAX has no int64 unless it is told to

/// What nanoflann asks of a set of points, which stay where they are.
struct Cloud {
    Points points;
    std::size_t kdtree_get_point_count() const { return static_cast<std::size_t>(points.extent(0)); }
    float kdtree_get_pt(std::size_t i, std::size_t d) const {
        return points(static_cast<std::int64_t>(i), static_cast<std::int64_t>(d));
    }
    template <class Box>
    bool kdtree_get_bbox(Box&) const {
        return false;
    }
};
using Tree = nanoflann::KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<float, Cloud>, Cloud, -1, Index>;

void search(Points points, Queries queries, float* distances, Index* indices) {
    if (points.extent(0) == 0) throw std::invalid_argument("argument 'points' has no points");
    const Cloud cloud{points};
    Tree tree(static_cast<int>(points.extent(1)), cloud);
    tree.buildIndex();
    std::vector<float> query(static_cast<std::size_t>(points.extent(1)));
    for (std::int64_t i = 0; i < queries.extent(0); ++i) {
        for (std::size_t d = 0; d < query.size(); ++d) query[d] = queries(i, static_cast<std::int64_t>(d));
        nanoflann::KNNResultSet<float, Index> found(1);
        found.init(indices + i, distances + i);
        tree.findNeighbors(found, query.data(), nanoflann::SearchParams());
    }
}

/// Squared distances to the nearest points, and which ones those are.
void nearest(Points points, Queries queries, Out<float, 1, sizes<"m">, c_contiguous> distances,
             Out<Index, 1, sizes<"m">, c_contiguous> indices) {
    search(points, queries, distances.data(), indices.data());
}

/// The distances' gradient with respect to the points and the queries; the indices have none.
void nearest_gradient(View<const float, 1, sizes<"m">> grad, View<const Index, 1, sizes<"m">>, Points points, Queries queries,
                      Out<float, 2, sizes<"n d">> grad_points, Out<float, 2, sizes<"m d">> grad_queries) {
    const auto m = static_cast<std::size_t>(queries.extent(0));
    std::vector<float> distances(m);
    std::vector<Index> indices(m);
    search(points, queries, distances.data(), indices.data());
    for (std::int64_t i = 0; i < points.extent(0); ++i)
        for (std::int64_t d = 0; d < points.extent(1); ++d) grad_points(i, d) = 0;
    for (std::int64_t i = 0; i < queries.extent(0); ++i)
        for (std::int64_t d = 0; d < points.extent(1); ++d) {
            const std::int64_t j = indices[static_cast<std::size_t>(i)];
            grad_queries(i, d) = 2 * grad(i) * (queries(i, d) - points(j, d));
            grad_points(j, d) -= grad_queries(i, d);
        }
}

int fill(PyObject* module) {
    return isthmus::op<"example::nearest", nearest>(module, {"points", "queries"}).gradient<nearest_gradient>() ? 0 : -1;
}
PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "nearest", "Nearest points, by nanoflann.", 0, nullptr, slots};

}  // namespace

PyMODINIT_FUNC PyInit_nearest() { return PyModuleDef_Init(&definition); }
