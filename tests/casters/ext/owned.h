// SPDX-License-Identifier: Apache-2.0
// Functions that keep their arguments beyond the call, and what is asked of them later.
#pragma once

#include <isthmus/array_like.h>
#include <isthmus/converted.h>
#include <isthmus/fields.h>
#include <isthmus/owned.h>
#include <isthmus/records.h>

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <isthmus/python/agreeing.h>
#include <isthmus/python/binding.h>

#include "records.h"

namespace casters {

using namespace isthmus;

using OwnRow = Owned<View<const float, 1>>;
using OwnDoubles = Owned<View<const double, 1>>;
using OwnAny = Owned<View<const float, dynamic_rank>>;
using OwnRows = Owned<View<const float, 2, sizes<"n d">>>;

/// What the functions below keep, each for itself.
struct Stored {
    OwnRow row;
    OwnAny any;
    Owned<View<float, 1>> written;
    Owned<Converted<View<const float, 2>>> converted;
    Owned<ArrayLike<View<const double, 1>>> like;
    std::optional<OwnRow> maybe;
    std::vector<OwnRow> batch;
    std::map<std::string, OwnRow> by_name;
    std::variant<OwnRow, OwnDoubles> either;
    Owned<View<const Point, 1>> points;
};
inline Stored stored;

template <class V>
double sum_stored(const Owned<V>& x) {
    double sum = 0;
    for (std::int64_t i = 0; i < x->size(); ++i) sum += static_cast<double>((*x)(i));
    return sum;
}
inline double own_sum() { return sum_stored(stored.row); }
inline double own_batch_sum() {
    double sum = 0;
    for (const OwnRow& row : stored.batch) sum += sum_stored(row);
    for (const auto& [name, row] : stored.by_name) sum += sum_stored(row);
    if (stored.maybe) sum += sum_stored(*stored.maybe);
    return sum + std::visit([](const auto& x) { return sum_stored(x); }, stored.either);
}
inline std::string own_sizes() { return layout::to_string(stored.any->shape()); }
inline void own_drop() { stored = Stored(); }
/// The last handles end on another thread, while this one has no GIL.
inline void own_drop_elsewhere() {
    PyThreadState* state = PyEval_SaveThread();
    std::thread([all = std::exchange(stored, Stored())] {}).join();
    PyEval_RestoreThread(state);
}

inline OwnRow own_copied(const OwnRow& x) {
    OwnRow copy(x);
    OwnRow moved(std::move(copy));
    copy = moved;
    return moved.tensor().use_count() == 3 && copy->data() == x->data() ? copy : OwnRow();
}
inline std::pair<std::int64_t, bool> own_moved_from(OwnRow x) {
    const OwnRow taken = std::move(x);
    // NOLINTNEXTLINE(bugprone-use-after-move): it is of nothing
    return {x->size(), static_cast<bool>(x.tensor())};
}
inline std::string own_made(const Tensor& x) {
    const Owned<View<const float, 1>> made(x);
    return std::to_string(made->size());
}
inline double own_total_float(const OwnRow& x) { return sum_stored(x); }
inline double own_total_double(const OwnDoubles& x) { return -sum_stored(x); }
inline double own_distance(const OwnRows& a, const std::optional<OwnRows>& b) {
    return b ? static_cast<double>((*a)(0, 0) - (**b)(0, 0)) : static_cast<double>((*a)(0, 0));
}
inline void own_apart(const Owned<View<float, 1, distinct>>& out, const OwnRow& x) {
    for (std::int64_t i = 0; i < x->size(); ++i) (*out)(i) = 2 * (*x)(i);
}
inline Reply own_named(const Argument<Owned<Converted<View<const float, 1, sizes<"n">>>>, "x", "own_named">& x) {
    auto made = x.make<View<float, 1>>({x->extent(0)});
    for (std::int64_t i = 0; i < x->extent(0); ++i) made(i) = 2 * (**x)(i);
    return made;
}
struct OwnedMesh {
    Owned<View<const double, 2, sizes<"n 3">>> points;
    Owned<ArrayLike<View<const std::int64_t, 1, sizes<"n">>>> kinds;
    std::optional<Owned<View<const Point, 1>>> marks;
    using fields = isthmus::fields<"points", "kinds", "marks">;
};
inline OwnedMesh mesh;
inline FieldsReply<OwnedMesh> own_mesh(const Argument<OwnedMesh, "mesh", "own_mesh">& x) {
    mesh = *x;
    return x.reply(mesh);
}
inline double own_mesh_sum() {
    double sum = 0;
    for (std::int64_t i = 0; i < mesh.points->extent(0); ++i)
        sum += (*mesh.points)(i, 0) * static_cast<double>((*mesh.kinds)(i));
    mesh = OwnedMesh();
    return sum;
}

template <class Define>
void bind_owned(Define def) {
    def("own_sum", own_sum);
    def("own_batch_sum", own_batch_sum);
    def("own_sizes", own_sizes);
    def("own_drop", own_drop);
    def("own_drop_elsewhere", own_drop_elsewhere);
    def("own_row", [](OwnRow x) { stored.row = std::move(x); });
    def("own_row_if", [](const OwnRow& x, bool) { return x; });
    def("own_any", [](const OwnAny& x) { stored.any = x; });
    def("own_written", [](Owned<View<float, 1>> x) { stored.written = std::move(x); });
    def("own_write", [](float value) {
        for (std::int64_t i = 0; i < stored.written->size(); ++i) (*stored.written)(i) = value;
    });
    def("own_converted", [](const Owned<Converted<View<const float, 2>>>& x) { return stored.converted = x; });
    def("own_like", [](const Owned<ArrayLike<View<const double, 1>>>& x) { return stored.like = x; });
    def("own_maybe", [](const std::optional<OwnRow>& x) { return stored.maybe = x; });
    def("own_batch", [](const std::vector<OwnRow>& all) { return stored.batch = all; });
    def("own_batch_if", [](const std::vector<OwnRow>& all, bool) { return all; });
    def("own_by_name", [](const std::map<std::string, OwnRow>& all) { return stored.by_name = all; });
    def("own_one_of", [](const std::variant<OwnRow, OwnDoubles>& one) { return stored.either = one; });
    def("own_both", [](const std::pair<OwnRow, double>& both) { return both; });
    def("own_named_batch", [](const std::vector<Argument<OwnRow, "batch", "own_named_batch">>& all) {
        stored.batch.clear();
        for (const auto& one : all) stored.batch.push_back(*one);
    });
    def("own_copied", own_copied);
    def("own_moved_from", own_moved_from);
    def("own_made", own_made);
    def("own_which", own_total_float);
    def("own_which", own_total_double);
    def("own_which", [](const Owned<ArrayLike<View<const double, 1>>>& x) { return 100 + sum_stored(x); });
    def("own_distance", with_checked_sizes<"own_distance", "a", "b">(own_distance));
    def("own_apart", with_checked_sizes<"own_apart", "out", "x">(own_apart));
    def("own_named", own_named);
    def("own_mesh", own_mesh);
    def("own_mesh_sum", own_mesh_sum);
    def("own_points", [](const Owned<View<const Point, 1>>& x) { return stored.points = x; });
    def("own_points_sum", [] { return sum_points(*stored.points); });
    def("own_points_written", [](const Owned<View<Point, 1>>& x) { (*x)(0).z = 7; });
}

}  // namespace casters
