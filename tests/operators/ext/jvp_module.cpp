// Operators with Jacobian-vector products, with gradients beside them and without.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <cmath>
#include <complex>
#include <optional>
#include <string_view>

#include "row_max.h"

namespace {

using operators_test::row_max_gradient;

using isthmus::InOut, isthmus::op, isthmus::Out, isthmus::sizes, isthmus::View;

template <class T>
using In = View<const T, 1, sizes<"n">>;
template <class T>
using Made = Out<T, 1, sizes<"n">>;
using Maybe = std::optional<In<double>>;

/// x to an integer power, times w if there is one.
void scaled(In<double> x, Maybe w, std::int64_t power, Made<double> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i)
        y(i) = std::pow(x(i), static_cast<double>(power)) * (w ? (*w)(i) : 1);
}
void scaled_gradient(In<double> g, In<double> x, Maybe w, std::int64_t power, Made<double> dx, Out<double, 1> dw) {
    const auto p = static_cast<double>(power);
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        dx(i) = g(i) * p * std::pow(x(i), p - 1) * (w ? (*w)(i) : 1);
        if (w) dw(i) = g(i) * std::pow(x(i), p);
    }
}
std::int64_t absent = 0;  ///< how many tangents were, in all calls
void scaled_jvp(Maybe tx, Maybe tw, In<double> x, Maybe w, std::int64_t power, Made<double> ty) {
    const auto p = static_cast<double>(power);
    absent += (tx ? 0 : 1) + (tw ? 0 : 1);
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        ty(i) = tx ? (*tx)(i)*p * std::pow(x(i), p - 1) * (w ? (*w)(i) : 1) : 0;
        if (tw) ty(i) += (*tw)(i)*std::pow(x(i), p);
    }
}
/// The result that has a tangent is the second one.
template <class T>
void row_max(View<const T, 2, sizes<"n k">> x, Out<std::int64_t, 1, sizes<"n">> where, Made<T> values) {
    operators_test::row_max<T>(x, values, where);
}
template <class T>
void row_max_jvp(View<const T, 2, sizes<"n k">> tx, View<const T, 2, sizes<"n k">> x, Made<T> tv) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < x.extent(1); ++j)
            if (x(i, j) > x(i, best)) best = j;
        tv(i) = tx(i, best);
    }
}
/// Without a gradient.
template <class T>
void sine(View<const T, 0> x, Out<T, 0> y) {
    y() = std::sin(x());
}
template <class T>
void sine_jvp(View<const T, 0> tx, View<const T, 0> x, Out<T, 0> ty) {
    ty() = std::cos(x()) * tx();
}
using Complex = std::complex<double>;
void square(In<Complex> z, Made<Complex> y) {
    for (std::int64_t i = 0; i < z.extent(0); ++i) y(i) = z(i) * z(i);
}
void square_gradient(In<Complex> g, In<Complex> z, Made<Complex> dz) {
    for (std::int64_t i = 0; i < z.extent(0); ++i) dz(i) = g(i) * std::conj(2.0 * z(i));
}
void square_jvp(In<Complex> tz, In<Complex> z, Made<Complex> ty) {
    for (std::int64_t i = 0; i < z.extent(0); ++i) ty(i) = 2.0 * z(i) * tz(i);
}
void into(InOut<double, 1>) {}
void twice(In<double>, In<double>, Made<double>, Made<double>) {}
void once(In<double>, Made<double>) {}
void of_integer(In<double>, std::int64_t, Made<double>) {}
void required(In<double>, In<double>, In<double>, Maybe, std::int64_t, Made<double>) {}

/// Products that must be refused, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    PyObject* m = scratch.get();
    const std::string_view name = PyUnicode_AsUTF8(which);
    if (name == "inputs") return op<"bad::once", once>(m, {"x"}).jvp<once>(), nullptr;
    if (name == "results") return op<"bad::once", once>(m, {"x"}).jvp<twice>(), nullptr;
    if (name == "kind") return op<"bad::once", once>(m, {"x"}).jvp<of_integer>(), nullptr;
    if (name == "optional") return op<"bad::scaled", scaled>(m, {"x", "w", "power"}).jvp<required>(), nullptr;
    if (name == "writes") return op<"bad::into", into>(m, {"x"}).jvp<once>(), nullptr;
    Py_RETURN_NONE;
}
PyObject* take_absent(PyObject*, PyObject*) { return PyLong_FromLongLong(std::exchange(absent, 0)); }
PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {"absent", take_absent, METH_NOARGS, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_jvp_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0)
        (void)(op<"jvp::scaled", scaled>(m, {"x", "w", isthmus::arg("power") = 2})
                   .gradient<scaled_gradient>()
                   .jvp<scaled_jvp>() &&
               op<"jvp::row_max", row_max<float>, row_max<double>>(m, {"x"})
                   .gradient<row_max_gradient<float>, row_max_gradient<double>>(
                       {.takes = {"grad_out", "out[0]"}, .of = {"x"}})
                   .jvp<row_max_jvp<float>, row_max_jvp<double>>() &&
               op<"jvp::sine", sine<float>, sine<double>>(m, {"x"}, {.batch = true})
                   .jvp<sine_jvp<float>, sine_jvp<double>>() &&
               op<"jvp::square", square>(m, {"z"}).gradient<square_gradient>().jvp<square_jvp>());
}
