// SPDX-License-Identifier: Apache-2.0
// Functions whose arguments come in as converted copies where they differ.
#pragma once

#include <isthmus/converted.h>
#include <isthmus/fields.h>
#include <isthmus/small_floats.h>

#include <complex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <isthmus/python/agreeing.h>
#include <isthmus/python/binding.h>

namespace casters {

using namespace isthmus;

/// What the function saw, in row-major order.
template <class T, class... C>
Tensor seen(const Converted<View<const T, dynamic_rank, C...>>& x) {
    return copy_of(x).value();
}
/// Address, strides in elements, and the last element.
template <class... C>
std::tuple<std::uintptr_t, std::int64_t, std::int64_t, double> placed(const Converted<View<const float, 2, C...>>& x) {
    return {reinterpret_cast<std::uintptr_t>(x.data()), x.stride(0), x.stride(1),
            static_cast<double>(x(x.extent(0) - 1, x.extent(1) - 1))};
}
inline std::tuple<std::uintptr_t, std::int64_t, double> placed_packed(const View<const float, 2, packed>& x) {
    return {reinterpret_cast<std::uintptr_t>(x.data()), x.stride(0), static_cast<double>(x.span().back())};
}
using Signal = View<const float, 1, sizes<"n">>;

inline double signal_sum(const Converted<Signal>& x) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum += static_cast<double>(x(i));
    return sum;
}
inline Reply signal_back(const Argument<Converted<Signal>, "signal", "signal_back">& x) {
    return x.reply(copy_of(*x).value());
}
inline std::int64_t columns(const Argument<Converted<View<const float, 2, f_contiguous>>, "x", "columns">& x) {
    return x->extent(1);
}
inline std::int64_t anywhere(const Argument<Converted<View<const float, 1, on_any_device>>, "x", "anywhere">& x) {
    return x->extent(0);
}
inline double signal_or(const std::optional<Converted<Signal>>& x) { return x ? signal_sum(*x) : -1; }
inline double signals_sum(const std::vector<Converted<Signal>>& all) {
    double sum = 0;
    for (const auto& x : all) sum += signal_sum(x);
    return sum;
}
inline double signals_dot(Converted<Signal> x, Signal y) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum += static_cast<double>(x(i)) * static_cast<double>(y(i));
    return sum;
}
inline std::string which_exact(View<const float, 1>) { return "float32"; }
inline std::string which_integers(View<const std::int32_t, 1>) { return "int32"; }
inline std::string which_converted(Converted<View<const double, 1>>) { return "converted"; }

struct Wave {
    Converted<View<const float, 1, sizes<"n">>> times;
    View<const double, 1, sizes<"n">> values;
    using fields = isthmus::fields<"times", "values">;
};
inline double wave_sum(const Wave& wave) { return signal_sum(wave.times) + wave.values(0); }

/// A look at what is alive while the argument is.
template <class Callable>
double signal_then(const Converted<Signal>& x, const Callable& look) {
    look();
    return signal_sum(x);
}

template <class Define>
void bind_converted(Define def) {
    def("seen_uint8", seen<std::uint8_t>);
    def("seen_int16", seen<std::int16_t>);
    def("seen_int32", seen<std::int32_t>);
    def("seen_int64", seen<std::int64_t>);
    def("seen_uint64", seen<std::uint64_t>);
    def("seen_float8_e4m3fn", seen<float8_e4m3fn_t>);
    def("seen_float8_e5m2", seen<float8_e5m2_t>);
    def("seen_float16", seen<float16_t>);
    def("seen_bfloat16", seen<bfloat16_t>);
    def("seen_float32", seen<float>);
    def("seen_float64", seen<double>);
    def("seen_complex64", seen<std::complex<float>>);
    def("seen_complex128", seen<std::complex<double>>);
    def("seen_bool", seen<ByteBool>);
    def("seen_rows_of_any", seen<any_dtype, c_contiguous>);
    def("seen_columns_of_any", seen<any_dtype, f_contiguous>);
    def("seen_floating", seen<floating>);
    def("placed", placed<>);
    def("placed_rows", placed<c_contiguous>);
    def("placed_columns", placed<f_contiguous>);
    def("placed_aligned", placed<aligned<4096>>);
    def("placed_named", placed<sizes<"n n">>);
    def("placed_packed", placed_packed);
    def("signal_sum", signal_sum);
    def("signal_back", signal_back);
    def("columns", columns);
    def("anywhere", anywhere);
    def("signal_or", signal_or);
    def("signals_sum", signals_sum);
    def("signals_dot", agreeing<"signals_dot", "x", "y">(signals_dot));
    def("wave_sum", wave_sum);
    def("which_fits", which_exact);
    def("which_fits", which_integers);
    def("which_fits", which_converted);
}

}  // namespace casters
