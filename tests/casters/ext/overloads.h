// SPDX-License-Identifier: Apache-2.0
// Overloads that say why none of them takes a call.
#pragma once

#include <optional>
#include <string>

#include <isthmus/converted.h>
#include <isthmus/owned.h>
#include <isthmus/python/overloads.h>

namespace casters {

using namespace isthmus;

inline std::string total_float(View<const float, 1, sizes<"n">>, double) { return "float32"; }
inline std::string total_double(View<const double, 1, sizes<"n">>, double) noexcept { return "float64"; }
inline std::string total_text(const std::string&, double) { return "text"; }
inline std::string any_kept(const Tensor&, const Borrowed&) { return "kept"; }
inline std::string any_written(View<float, 1>, std::optional<Argument<View<const float, 1>>>) { return "written"; }
inline std::string any_converted(Converted<View<const std::int8_t, 2>>, double) { return "converted"; }
inline constexpr auto total_rows = [](View<const float, 2> rows, std::int64_t) {
    return std::to_string(rows.extent(0));
};

inline double own_first(const Owned<View<const float, 1>>& x) { return static_cast<double>((*x)(0)); }
inline double own_last(const Owned<View<const double, 1>>& x) { return (*x)(x->size() - 1); }

inline Tensor made_of(DType dtype) { return Tensor::empty({2}, dtype); }

inline std::string batch_of(const std::vector<View<const float, 2>>&) { return "list"; }
inline std::string batch_by_name(const std::map<std::string, View<const float, 1>>&) { return "mapping"; }
inline std::string batch_of_two(const std::pair<Tensor, View<const float, 1>>&) { return "pair"; }
inline std::string batch_of_batches(const std::vector<std::vector<View<const float, 1>>>&) { return "nested"; }

struct Scale {
    double factor = 2;
    std::string rows(View<const float, 2>) const { return "rows"; }
    std::string fill(View<float, 1> x) noexcept {
        for (std::int64_t i = 0; i < x.extent(0); ++i) x(i) = static_cast<float>(factor);
        return "filled";
    }
};
inline std::string scale_outside(const Scale&, View<const double, 2>) { return "outside"; }

/// `maybe` says that the second argument may be None, for a binder that does not see it in the type.
template <class Arg, class Module, class... Maybe>
void bind_overloads(Module& m, const Maybe&... maybe) {
    overloads<total_float, total_double>(m, "totals", Arg("x"), Arg("power") = 1.0, "the sum of the powers");
    overloads<total_float, total_text>(m, "total_or_text", Arg("x"), Arg("power"));
    overloads<any_kept, any_written, any_converted>(m, "unnamed", maybe...);
    overloads<any_kept, any_written>(m, "annotated", Arg().noconvert(), Arg().none());
    overloads<own_first, own_last>(m, "own_ends", Arg("x"));
    overloads<made_of>(m, "made_of", Arg("dtype"));
    overloads<batch_of, batch_by_name>(m, "batches", Arg("batch"));
    overloads<batch_of_two>(m, "two_of", Arg("both"));
    overloads<batch_of_batches>(m, "nested_batches", Arg("batch"));
    overloads<total_rows>(m, "rows_of", Arg("rows"), Arg("count"));
}
template <class Arg, class Class>
void bind_scale(Class& scale) {
    overloads<&Scale::rows, &Scale::fill, scale_outside>(scale, "apply", Arg("x"));
}

}  // namespace casters
