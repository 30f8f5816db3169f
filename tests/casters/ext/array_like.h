// SPDX-License-Identifier: Apache-2.0
// Functions that take lists, tuples and whatever else numpy.asarray() takes.
#pragma once

#include <isthmus/array_like.h>
#include <isthmus/fields.h>
#include <isthmus/small_floats.h>

#include <complex>
#include <optional>
#include <string>
#include <vector>

#include <isthmus/python/agreeing.h>
#include <isthmus/python/binding.h>

namespace casters {

using namespace isthmus;

/// What the function saw, in row-major order.
template <class T, class... C>
Tensor numbers(const ArrayLike<View<const T, dynamic_rank, C...>>& x) {
    return copy_of(x).value();
}
using Corners = ArrayLike<View<const float, 2, sizes<"n 2">>>;

inline Tensor points(const Argument<Corners, "points", "area">& x) { return copy_of(*x).value(); }
inline Tensor bytes_of(const Argument<ArrayLike<View<const std::uint8_t, 2>>, "levels", "dither">& x) {
    return copy_of(*x).value();
}
inline Tensor counts(const Argument<ArrayLike<View<const std::int32_t, 1>>, "counts", "histogram">& x) {
    return copy_of(*x).value();
}
inline std::uintptr_t place_of(const ArrayLike<View<const double, 1>>& x) {
    return reinterpret_cast<std::uintptr_t>(x.data());
}
inline std::int64_t column_step(const ArrayLike<View<const float, 2, f_contiguous, aligned<256>>>& x) {
    return reinterpret_cast<std::uintptr_t>(x.data()) % 256 == 0 && x(1, 2) == 6 ? x.stride(1) : -1;
}
inline double scalar(const ArrayLike<View<const double, 0>>& x) { return x(); }
inline double sum_of(const View<const double, 1>& x) {
    double sum = 0;
    for (const double v : x) sum += v;
    return sum;
}
inline double total_or(const std::optional<ArrayLike<View<const double, 1>>>& x) { return x ? sum_of(*x) : -1; }
inline double totals(const std::vector<ArrayLike<View<const double, 1>>>& all) {
    double sum = 0;
    for (const auto& x : all) sum += sum_of(x);
    return sum;
}
inline double dot(const ArrayLike<View<const double, 1, sizes<"n">>>& x, View<const double, 1, sizes<"n">> y) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum += x(i) * y(i);
    return sum;
}
struct Polygon {
    ArrayLike<View<const double, 2, sizes<"n 2">>> corners;
    ArrayLike<View<const std::int64_t, 1, sizes<"n">>> kinds;
    using fields = isthmus::fields<"corners", "kinds">;
};
inline double polygon(const Argument<Polygon, "polygon", "area">& x) {
    double sum = 0;
    for (std::int64_t i = 0; i < x->kinds.extent(0); ++i) sum += x->corners(i, 1) * static_cast<double>(x->kinds(i));
    return sum;
}
inline std::string which_like(View<const double, 1>) { return "array"; }
inline std::string which_like(std::int64_t) { return "int"; }
inline std::string which_like(ArrayLike<View<const double, 1>>) { return "like"; }

/// A look at what is alive while the argument is.
template <class Callable>
double numbers_then(const ArrayLike<View<const double, 1>>& x, const Callable& look) {
    look();
    return sum_of(x);
}

template <class Define>
void bind_array_like(Define def) {
    def("numbers_bool", numbers<ByteBool>);
    def("numbers_uint8", numbers<std::uint8_t>);
    def("numbers_int8", numbers<std::int8_t>);
    def("numbers_uint64", numbers<std::uint64_t>);
    def("numbers_int64", numbers<std::int64_t>);
    def("numbers_bfloat16", numbers<bfloat16_t>);
    def("numbers_float32", numbers<float>);
    def("numbers_float64", numbers<double>);
    def("numbers_complex64", numbers<std::complex<float>>);
    def("numbers_of_any", numbers<any_dtype>);
    def("numbers_floating", numbers<floating>);
    def("numbers_integral", numbers<integral>);
    def("numbers_one_of", numbers<one_of<float, std::int16_t>>);
    def("numbers_columns", numbers<any_dtype, f_contiguous>);
    def("points", points);
    def("bytes_of", bytes_of);
    def("counts", counts);
    def("place_of", place_of);
    def("column_step", column_step);
    def("scalar", scalar);
    def("total_or", total_or);
    def("totals", totals);
    def("dot_like", with_checked_sizes<"dot_like", "x", "y">(dot));
    def("polygon", polygon);
    def("which_like", static_cast<std::string (*)(View<const double, 1>)>(which_like));
    def("which_like", static_cast<std::string (*)(std::int64_t)>(which_like));
    def("which_like", static_cast<std::string (*)(ArrayLike<View<const double, 1>>)>(which_like));
}

}  // namespace casters
