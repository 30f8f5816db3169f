// SPDX-License-Identifier: Apache-2.0
// Nearest neighbours by nanoflann, a header-only C++ library, over the caller's own
// memory, of any framework.
#include <isthmus/nanobind.h>

#include <limits>

#include <nanobind/stl/pair.h>
#include <nanoflann.hpp>

namespace nb = nanobind;
using namespace isthmus;

namespace {

template <class T>
using Points = View<const T, 2, sizes<"n d">>;
template <class T>
using Queries = View<const T, 2, sizes<"m d">>;

/// The points are not copied: the tree holds a Tensor, which keeps their owner alive,
/// and a view of it.
template <class T>
class Tree {
public:
    explicit Tree(Tensor tensor)
        : tensor_(std::move(tensor)),
          points_(Match("tree").view<Points<T>>("points", tensor_).value()),
          index_(static_cast<int>(points_.extent(1)), *this) {
        index_.buildIndex();
    }

    /// Squared distances and indices of the k points nearest to each row of `x`, in the
    /// caller's framework.
    std::pair<Reply, Reply> query(const Argument<Queries<T>, "x", "query">& x,
                                  std::int64_t k) const {
        Match match("query");
        match.agree("points", points_).value();
        match.agree("x", *x).value();
        if (k < 1 || k > points_.extent(0))
            throw Error(ErrorCode::bad_argument,
                        "query(): argument 'k': " + std::to_string(k) +
                            "; expected 1 to " + std::to_string(points_.extent(0)));
        const std::int64_t m = x->extent(0);
        const Tensor distances = Tensor::empty({m, k}, dtype_of<T>());
        // JAX has no int64 unless it is told to.
        const Tensor indices = Tensor::empty({m, k}, isthmus::int32);
        search(*x, static_cast<std::size_t>(k), static_cast<T*>(distances.data()),
               static_cast<std::int32_t*>(indices.data()));
        return {x.reply(distances), x.reply(indices)};
    }
    Tensor points() const { return tensor_; }

    // nanoflann's requirements for a set of points.
    std::size_t kdtree_get_point_count() const {
        return static_cast<std::size_t>(points_.extent(0));
    }
    T kdtree_get_pt(std::size_t i, std::size_t d) const {
        return points_(static_cast<std::int64_t>(i), static_cast<std::int64_t>(d));
    }
    template <class Box>
    bool kdtree_get_bbox(Box&) const {
        return false;
    }

private:
    void search(const Queries<T>& x, std::size_t k, T* distances,
                std::int32_t* indices) const {
        // The caller holds x, and the tree its points.
        const nb::gil_scoped_release parallel;
        std::vector<T> row(static_cast<std::size_t>(x.extent(1)));
        for (std::int64_t i = 0; i < x.extent(0); ++i, distances += k, indices += k) {
            for (std::size_t d = 0; d < row.size(); ++d)
                row[d] = x(i, static_cast<std::int64_t>(d));
            nanoflann::KNNResultSet<T, std::int32_t> found(k);
            found.init(indices, distances);
            index_.findNeighbors(found, row.data(), nanoflann::SearchParams());
        }
    }

    Tensor tensor_;
    Points<T> points_;
    nanoflann::KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<T, Tree>, Tree, -1,
                                        std::int32_t>
        index_;
};

template <class T>
void bind(nb::module_& m, const char* name) {
    nb::class_<Tree<T>>(m, name)
        .def("query", &Tree<T>::query, nb::arg("x"), nb::arg("k") = 1)
        .def_prop_ro("points", &Tree<T>::points);
}

/// The tree of the points' own precision. (Tree checks the rest.)
nb::object make_tree(const Tensor& points) {
    if (points.dtype() == float64)
        return nb::cast(new Tree<double>(points), nb::rv_policy::take_ownership);
    return nb::cast(new Tree<float>(points), nb::rv_policy::take_ownership);
}

}  // namespace

NB_MODULE(neighbours, m) {
    bind<float>(m, "Tree32");
    bind<double>(m, "Tree64");
    m.def("tree", make_tree, nb::arg("points"));
}
