// Operators with the signatures of real kernel libraries: gather, bias, cache updates, pooling, selection.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <algorithm>
#include <atomic>
#include <complex>
#include <string_view>

namespace {

using isthmus::any_dtype;
using isthmus::arg;
using isthmus::dtype_like;
using isthmus::dynamic_rank;
using isthmus::InOut;
using isthmus::one_of;
using isthmus::op;
using isthmus::Out;
using isthmus::sizes;
using isthmus::View;
using Real = one_of<float, double>;

/// Rows by their number. The dtype is that of `x`, the first argument of the set, or the named one.
template <class T>
void take(View<const std::int64_t, 1, sizes<"n">> index, View<const Real, 2, sizes<"m k">> x,
          Out<T, 2, sizes<"n k">> rows) {
    x.visit([&](auto from) {
        using E = typename decltype(from)::value_type;
        const auto to = rows.template as<E>().value();
        for (std::int64_t i = 0; i < index.extent(0); ++i)
            for (std::int64_t k = 0; k < x.extent(1); ++k) to(i, k) = from(index(i), k);
    });
}
/// The gradient of an optional bias is a result of a set, whose own argument may be None.
void add_bias(View<const Real, 2, sizes<"n k">> x, std::optional<View<const Real, 1, sizes<"k">>> bias,
              Out<Real, 2, sizes<"n k">> y) {
    x.visit([&](auto from) {
        using E = typename decltype(from)::value_type;
        const auto to = y.as<E>().value();
        for (std::int64_t i = 0; i < x.extent(0); ++i)
            for (std::int64_t k = 0; k < x.extent(1); ++k)
                to(i, k) = from(i, k) + (bias ? bias->template as<E>().value()(k) : E{0});
    });
}
void add_bias_gradient(View<const Real, 2, sizes<"n k">> g, View<const Real, 2, sizes<"n k">>,
                       std::optional<View<const Real, 1, sizes<"k">>>, Out<Real, 2, sizes<"n k">> dx,
                       Out<Real, 1> dbias) {
    g.visit([&](auto from) {
        using E = typename decltype(from)::value_type;
        const auto to = dx.as<E>().value();
        const auto sum = dbias.as<E>().value();
        for (std::int64_t k = 0; k < sum.extent(0); ++k) sum(k) = 0;
        for (std::int64_t i = 0; i < from.extent(0); ++i)
            for (std::int64_t k = 0; k < from.extent(1); ++k) {
                to(i, k) = from(i, k);
                if (k < sum.extent(0)) sum(k) += from(i, k);
            }
    });
}

/// An update of a cache: rows at places, in place.
void put_rows(InOut<float, 2, sizes<"m k">> cache, View<const std::int64_t, 1, sizes<"n">> index,
              View<const float, 2, sizes<"n k">> rows) {
    for (std::int64_t i = 0; i < rows.extent(0); ++i)
        for (std::int64_t k = 0; k < rows.extent(1); ++k) cache(index(i), k) = rows(i, k);
}
/// A table with as many rows and columns as the integers say.
void one_hot(View<const std::int64_t, 1, sizes<"n">> index, std::int64_t classes, std::int64_t times,
             Out<float, 2, sizes<"n classes">> y) {
    for (std::int64_t i = 0; i < index.extent(0); ++i)
        for (std::int64_t c = 0; c < classes; ++c) y(i, c) = index(i) == c ? static_cast<float>(times) : 0;
}

/// Without results: what it does is seen elsewhere. The sum of all that it was given.
std::atomic<double> total{0};
void observe(View<const float, 1> x, double weight) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) total = total + weight * static_cast<double>(x(i));
}
PyObject* take_total(PyObject*, PyObject*) { return PyFloat_FromDouble(total.exchange(0)); }

/// Numbers of rows: a result of 64-bit integers.
void arange_like(View<const float, 2, sizes<"n k">> x, Out<std::int64_t, 1, sizes<"n">> rows) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) rows(i) = i;
}
/// Integers first in the set; the gradient is that of the others, in torch's convention for complex numbers.
template <class T>
void square(View<const T, 1, sizes<"n">> x, Out<T, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<T>(x(i) * x(i));
}
template <class T>
void square_gradient(View<const T, 1, sizes<"n">> g, View<const T, 1, sizes<"n">> x, Out<T, 1, sizes<"n">> dx) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        if constexpr (std::is_arithmetic_v<T>)
            dx(i) = 2 * x(i) * g(i);
        else
            dx(i) = std::conj(x(i) + x(i)) * g(i);
    }
}
void ones(std::int64_t, Out<float, 1, sizes<"n">>) {}
void nothing(double) {}
void like_nothing(View<const float, 1> x, Out<dtype_like<"y">, 1>) { (void)x; }
void like_scalar(View<const float, 1>, std::int64_t, Out<dtype_like<"k">, 1>) {}
void like_optional(std::optional<View<const Real, 1, sizes<"n">>>, Out<dtype_like<"x">, 0>) {}
void set_of_optional(std::optional<View<const Real, 1, sizes<"n">>>, Out<Real, 0>) {}
void set_of_others(View<const std::int64_t, 1>, Out<Real, 1>) {}
void set_of_more(View<const one_of<float, double, std::int32_t>, 1>, Out<Real, 1>) {}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    PyObject* self = scratch.get();
    const std::string_view name = PyUnicode_AsUTF8(which);
    if (name == "like nothing") return op<"bad::like_nothing", like_nothing>(self, {"x"}), nullptr;
    if (name == "ones") return op<"bad::ones", ones>(self, {"n"}), nullptr;
    if (name == "nothing") return op<"bad::nothing", nothing>(self, {"x"}), nullptr;
    if (name == "like scalar") return op<"bad::like_scalar", like_scalar>(self, {"x", "k"}), nullptr;
    if (name == "like optional") return op<"bad::like_optional", like_optional>(self, {"x"}), nullptr;
    if (name == "set of optional") return op<"bad::set_of_optional", set_of_optional>(self, {"x"}), nullptr;
    if (name == "set of others") return op<"bad::set_of_others", set_of_others>(self, {"x"}), nullptr;
    if (name == "set of more") return op<"bad::set_of_more", set_of_more>(self, {"x"}), nullptr;
    Py_RETURN_NONE;
}

bool bind_dtypes(PyObject* m) {
    return op<"kinds::take", take<Real>>(m, {"index", "x"}) &&
           op<"kinds::take_like", take<dtype_like<"x">>>(m, {"index", "x"}) &&
           op<"kinds::arange_like", arange_like>(m, {"x"}) &&
           op<"kinds::add_bias", add_bias>(m, {"x", "bias"}).gradient<add_bias_gradient>();
}

bool bind_sizes(PyObject* m) {
    return op<"kinds::put_rows", put_rows>(m, {"cache", "index", "rows"}) &&
           op<"kinds::one_hot", one_hot>(m, {"index", "classes", arg("times") = 1});
}

bool bind_sets(PyObject* m) {
    using C = std::complex<float>;
    return bool(op<"kinds::square", square<C>, square<std::int8_t>, square<float>, square<std::int64_t>>(m, {"x"})
                    .gradient<square_gradient<float>, square_gradient<C>>()) &&
           bool(op<"kinds::integers_first", square<std::int64_t>, square<float>>(m, {"x"})
                    .gradient<square_gradient<float>>());
}

bool bind_effects(PyObject* m) { return bool(op<"kinds::observe", observe>(m, {"x", arg("weight") = 1.0})); }

PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {"take_total", take_total, METH_NOARGS, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_kinds_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0)
        (void)(bind_dtypes(m) && bind_sizes(m) && bind_sets(m) && bind_effects(m));
}
