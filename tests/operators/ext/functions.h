// The operators that the test modules of all binders have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/op.h>
#include <isthmus/small_floats.h>

#include <atomic>
#include <cmath>
#include <complex>
#include <limits>
#include <stdexcept>
#include <string_view>

// Each module has its own namespace of operators, so that torch knows all of them in one process.
#if !defined(ISTHMUS_TEST_SPACE)
#define ISTHMUS_TEST_SPACE "geo"
#endif

namespace functions {

using isthmus::arg;
using isthmus::c_contiguous;
using isthmus::dynamic_rank;
using isthmus::floating;
using isthmus::InOut;
using isthmus::one_of;
using isthmus::Out;
using isthmus::sizes;
using isthmus::View;
using Half = isthmus::float16_t;
using Brain = isthmus::bfloat16_t;

/// What the tests ask of the last call: the address of the first operand, and whether the GIL was held.
inline std::atomic<const void*> last_pointer{nullptr};
inline std::atomic<int> had_gil{-1};
inline std::atomic<int> calls{0};
inline void note(const void* pointer) {
    last_pointer = pointer;
    had_gil = isthmus::have_gil() ? 1 : 0;
    ++calls;
}

template <class T>
using Points = View<const T, 2, sizes<"n d">>;
template <class T>
using Others = View<const T, 2, sizes<"m d">>;

/// Squared distances of all pairs.
template <class T>
void distance(Points<T> a, Others<T> b, Out<T, 2, sizes<"n m">> c) {
    note(a.data());
    for (std::int64_t i = 0; i < a.extent(0); ++i)
        for (std::int64_t j = 0; j < b.extent(0); ++j) {
            T sum = 0;
            for (std::int64_t k = 0; k < a.extent(1); ++k) sum += (a(i, k) - b(j, k)) * (a(i, k) - b(j, k));
            c(i, j) = sum;
        }
}
template <class T>
void distance_gradient(View<const T, 2, sizes<"n m">> g, Points<T> a, Others<T> b, Out<T, 2, sizes<"n d">> da,
                       Out<T, 2, sizes<"m d">> db) {
    for (std::int64_t k = 0; k < a.extent(1); ++k) {
        for (std::int64_t i = 0; i < a.extent(0); ++i) da(i, k) = 0;
        for (std::int64_t j = 0; j < b.extent(0); ++j) db(j, k) = 0;
    }
    for (std::int64_t i = 0; i < a.extent(0); ++i)
        for (std::int64_t j = 0; j < b.extent(0); ++j)
            for (std::int64_t k = 0; k < a.extent(1); ++k) {
                const T step = 2 * g(i, j) * (a(i, k) - b(j, k));
                da(i, k) += step;
                db(j, k) -= step;
            }
}

/// Every kind of scalar.
inline void scale(View<const float, dynamic_rank, c_contiguous> x, double factor, std::int64_t times, bool negate,
                  std::string_view mode, Out<float, dynamic_rank, c_contiguous> y) {
    note(x.data());
    if (mode != "plain" && mode != "square") throw std::invalid_argument("mode is plain or square");
    const auto from = x.span();
    const auto to = y.span();
    for (std::size_t i = 0; i < from.size(); ++i) {
        double value = from[i];
        for (std::int64_t t = 0; t < times; ++t) value *= factor;
        if (mode == "square") value *= value;
        to[i] = static_cast<float>(negate ? -value : value);
    }
}
inline void scale_gradient(View<const float, dynamic_rank, c_contiguous> g,
                           View<const float, dynamic_rank, c_contiguous> x, double factor, std::int64_t times,
                           bool negate, std::string_view mode, Out<float, dynamic_rank, c_contiguous> dx) {
    for (std::size_t i = 0; i < g.span().size(); ++i) {
        const double power = std::pow(factor, static_cast<double>(times));
        const double slope = mode == "square" ? 2 * x.span()[i] * power * power : power;
        dx.span()[i] = static_cast<float>(g.span()[i] * (negate ? -slope : slope));
    }
}

/// Two results, an optional argument.
inline void weighted(View<const double, 1, sizes<"n">> x, std::optional<View<const double, 1, sizes<"n">>> w,
                     Out<double, 0> total, Out<double, 1, sizes<"n">> parts) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        parts(i) = x(i) * (w ? (*w)(i) : 1.0);
        sum += parts(i);
    }
    total() = sum;
}

/// Writes in place, returns nothing.
inline void add_to(InOut<float, 1, sizes<"n">> y, View<const float, 1, sizes<"n">> x) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) y(i) += x(i);
}

/// A set of dtypes in one function; the result has the argument's.
inline void twice(View<const one_of<float, double, std::int32_t>, dynamic_rank> x,
                  Out<one_of<float, double, std::int32_t>, dynamic_rank> y) {
    x.visit([&](auto from) {
        using T = std::remove_const_t<typename decltype(from)::element_type>;
        const auto to = y.as<T>().value();
        for (std::int64_t i = 0; i < from.size(); ++i)
            to.span()[static_cast<std::size_t>(i)] = 2 * from.span()[static_cast<std::size_t>(i)];
    });
}

/// A set with dtypes that have no C++ type here. What they hold is left alone.
inline void any_float(View<const floating, 1> x, Out<floating, 1>) { note(x.data()); }

/// A set of nothing but narrow floating-point dtypes.
inline void same(View<const one_of<Half, Brain>, 1> x, Out<one_of<Half, Brain>, 1> y) {
    x.visit([&](auto from) {
        using T = std::remove_const_t<typename decltype(from)::element_type>;
        const auto to = y.as<T>().value();
        for (std::int64_t i = 0; i < from.size(); ++i) to(i) = from(i);
    });
}
inline void same_gradient(View<const one_of<Half, Brain>, 1> g, View<const one_of<Half, Brain>, 1>,
                          Out<one_of<Half, Brain>, 1> dx) {
    same(g, dx);
}

/// A size that an integer argument tells.
inline void first(View<const float, 1, sizes<"n">> x, std::int64_t k, Out<float, 1, sizes<"k">> y) {
    for (std::int64_t i = 0; i < k; ++i) y(i) = i < x.extent(0) ? x(i) : 0;
}

inline void dot(View<const double, 1, sizes<"n">> a, View<const double, 1, sizes<"n">> b, Out<double, 0> c) {
    note(a.data());
    double sum = 0;
    for (std::int64_t i = 0; i < a.extent(0); ++i) sum += a(i) * b(i);
    c() = sum;
}

/// Scalars that a ufunc broadcasts too.
inline void shift(View<const double, 1, sizes<"n">> x, double by, std::int64_t times, bool back,
                  Out<double, 1, sizes<"n">> y) {
    if (std::isnan(by)) throw std::invalid_argument("by is not a number");
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) + (back ? -by : by) * static_cast<double>(times);
}
inline void conjugate(View<const std::complex<float>, 1> x, Out<std::complex<float>, 1> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = std::conj(x(i));
}
/// One function for several dtypes, of a fixed rank and with a size that is a number.
inline void cross(View<const one_of<float, double>, 1, sizes<"3">> a,
                  View<const one_of<float, double>, 1, sizes<"3">> b, Out<one_of<float, double>, 1, sizes<"3">> c) {
    a.visit([&](auto left) {
        using T = std::remove_const_t<typename decltype(left)::element_type>;
        const auto right = b.as<T>().value();
        const auto to = c.as<T>().value();
        for (int i = 0; i < 3; ++i)
            to(i) = left((i + 1) % 3) * right((i + 2) % 3) - left((i + 2) % 3) * right((i + 1) % 3);
    });
}

/// As many different sizes as four tensors can have.
inline void many_sizes(View<const double, 64> a, View<const double, 64>, View<const double, 64>, View<const double, 64>,
                       Out<double, 0> c) {
    c() = static_cast<double>(a.size());
}

/// A result with more dimensions than either argument has.
inline void outer(View<const double, 1, sizes<"n">> a, View<const double, 1, sizes<"m">> b,
                  Out<double, 2, sizes<"n m">> c) {
    for (std::int64_t i = 0; i < a.extent(0); ++i)
        for (std::int64_t j = 0; j < b.extent(0); ++j) c(i, j) = a(i) * b(j);
}
/// What is no tensor, and what may be absent, before the tensors. The result is as long as an argument that may be
/// absent.
inline void spread(double by, std::optional<View<const double, 1, sizes<"m">>> w, View<const double, 1, sizes<"n">> x,
                   Out<double, 1, sizes<"m">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) y(i) = by * (*w)(i)*x(0);
}
/// Overloads that differ in their second argument.
template <class T, class U>
void combine(View<const T, 1, sizes<"n">> x, View<const U, 1, sizes<"n">> y, Out<T, 1, sizes<"n">> z) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) z(i) = x(i) + static_cast<T>(y(i));
}
/// Defaults that a schema of torch can spell, and one that it cannot.
inline void limit(View<const double, 1, sizes<"n">> x, double most, std::string_view note,
                  Out<double, 1, sizes<"n">> y) {
    if (note != "\"so\" it's \\") throw std::invalid_argument("note is another");
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) < most ? x(i) : most;
}
/// A default before an argument that has none.
inline void raise_to(View<const double, 1, sizes<"n">> x, double factor, double power, Out<double, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = factor * std::pow(x(i), power);
}
/// Writes in place, with a default at the end.
inline void add_times(InOut<float, 1, sizes<"n">> y, View<const float, 1, sizes<"n">> x, double times) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) y(i) += static_cast<float>(times * x(i));
}

inline void fail(View<const float, 1> x, std::string_view how, Out<float, 1> y) {
    if (how == "value") throw std::invalid_argument("a bad value");
    if (how == "index") throw std::out_of_range("far out");
    if (how == "memory") throw std::bad_alloc();
    if (how == "error") throw isthmus::Error(isthmus::ErrorCode::needs_copy, "only a copy would do");
    if (how == "runtime") throw std::runtime_error("it broke");
    if (how == "int") throw 3;
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i);
}

/// For a GPU; the memory of a stand-in is the host's, so that the elements can be written by the address.
using isthmus::on_cuda;
using isthmus::Stream;
inline std::atomic<void*> last_stream{nullptr};
template <class T>
void add(View<const T, 1, sizes<"n">> x, View<const T, 1, sizes<"n">> y, Out<T, 1, sizes<"n">> sum) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum(i) = x(i) + y(i);
}
template <class T>
void add_on_cuda(View<const T, 1, sizes<"n">, on_cuda> x, View<const T, 1, sizes<"n">, on_cuda> y,
                 Out<T, 1, sizes<"n">, on_cuda> sum, Stream stream) {
    note(x.data());
    last_stream = stream.handle();
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum.data()[i] = x.data()[i] + y.data()[i];
}
/// d sum/dx = d sum/dy = 1.
inline void add_gradient(View<const float, 1, sizes<"n">> g, View<const float, 1, sizes<"n">>,
                         View<const float, 1, sizes<"n">>, Out<float, 1, sizes<"n">> dx, Out<float, 1, sizes<"n">> dy) {
    for (std::int64_t i = 0; i < g.extent(0); ++i) dx(i) = dy(i) = g(i);
}
inline void add_gradient_on_cuda(View<const float, 1, sizes<"n">, on_cuda> g, View<const float, 1, sizes<"n">, on_cuda>,
                                 View<const float, 1, sizes<"n">, on_cuda>, Out<float, 1, sizes<"n">, on_cuda> dx,
                                 Out<float, 1, sizes<"n">, on_cuda> dy, Stream) {
    for (std::int64_t i = 0; i < g.extent(0); ++i) dx.data()[i] = dy.data()[i] = g.data()[i];
}
inline void add_to_on_cuda(InOut<float, 1, sizes<"n">, on_cuda> y, View<const float, 1, sizes<"n">, on_cuda> x,
                           Stream stream) {
    last_stream = stream.handle();
    for (std::int64_t i = 0; i < y.extent(0); ++i) y.data()[i] += x.data()[i];
}

inline PyObject* last_call() {
    return Py_BuildValue("(Kii)",
                         static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(last_pointer.load())),
                         had_gil.load(), calls.load());
}

template <class Module>
bool bind(Module&& m) {
    return isthmus::op<ISTHMUS_TEST_SPACE "::distance", distance<float>, distance<double>>(m, {"a", "b"})
               .template gradient<distance_gradient<float>, distance_gradient<double>>() &&
           isthmus::op<ISTHMUS_TEST_SPACE "::scale", scale>(
               m, {"x", arg("factor") = 2.0, arg("times") = 1, arg("negate") = false, arg("mode") = "plain"},
               {.doc = "Multiplies."})
               .template gradient<scale_gradient>() &&
           isthmus::op<ISTHMUS_TEST_SPACE "::weighted", weighted>(m, {"x", "w"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::add_to", add_to>(m, {"y", "x"}).template cuda<add_to_on_cuda>() &&
           isthmus::op<"both::twice", twice>(m, {"x"}) && isthmus::op<ISTHMUS_TEST_SPACE "::twice", twice>(m, {"x"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::any_float", any_float>(m, {"x"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::same", same>(m, {"x"}).template gradient<same_gradient>() &&
           isthmus::op<ISTHMUS_TEST_SPACE "::first", first>(m, {"x", "k"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::dot", dot>(m, {"a", "b"}, {.batch = true}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::shift", shift>(m, {"x", "by", "times", "back"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::conjugate", conjugate>(m, {"x"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::cross", cross>(m, {"a", "b"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::many_sizes", many_sizes>(m, {"a", "b", "c", "d"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::outer", outer>(m, {"a", "b"}, {.batch = true}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::add_rows", add_to>(m, {"y", "x"}, {.batch = true}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::spread", spread>(m, {"by", "w", "x"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::combine", combine<float, float>, combine<float, double>>(m, {"x", "y"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::limit", limit>(
               m, {"x", arg("most") = std::numeric_limits<double>::infinity(), arg("note") = "\"so\" it's \\"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::raise_to", raise_to>(m, {"x", arg("factor") = 2.0, "power"}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::add_times", add_times>(m, {"y", "x", arg("times") = 1.0}) &&
           isthmus::op<ISTHMUS_TEST_SPACE "::add", add<float>, add<double>>(m, {"x", "y"})
               .template cuda<add_on_cuda<float>>() &&
           isthmus::op<ISTHMUS_TEST_SPACE "::add_traced", add<float>>(m, {"x", "y"})
               .template gradient<add_gradient>()
               .template cuda<add_on_cuda<float>>()
               .template cuda_gradient<add_gradient_on_cuda>() &&
           isthmus::op<ISTHMUS_TEST_SPACE "::fail", fail>(m, {"x", "how"});
}

}  // namespace functions
