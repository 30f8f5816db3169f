// Operators whose gradients say what they take and what they are of: results, sizes, another operator, a second one.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "row_max.h"

namespace {

using operators_test::row_max, operators_test::row_max_gradient;

using isthmus::InOut, isthmus::one_of, isthmus::op, isthmus::Out, isthmus::sizes, isthmus::View;

/// Which gradients were computed, a bit for each, since the last question.
std::atomic<int> computed = 0;

void scaled(View<const double, 1, sizes<"n">> x, std::optional<View<const double, 1, sizes<"n">>> w,
            Out<double, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = w ? x(i) * (*w)(i) : x(i);
}
void scaled_gradient(View<const double, 1, sizes<"n">> g, View<const double, 1, sizes<"n">> x,
                     std::optional<View<const double, 1, sizes<"n">>> w, std::optional<Out<double, 1, sizes<"n">>> dx,
                     std::optional<Out<double, 1>> dw) {
    computed |= (dx ? 1 : 0) | (dw ? 2 : 0);
    for (std::int64_t i = 0; i < g.extent(0); ++i) {
        if (dx) (*dx)(i) = w ? g(i) * (*w)(i) : g(i);
        if (dw && w) (*dw)(i) = g(i) * x(i);
    }
}

using In = View<const double, 1, sizes<"n">>;
using Made = Out<double, 1, sizes<"n">>;
void cube(In x, Made y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) * x(i) * x(i);
}
void cube_gradient(In g, In x, Made dx) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) dx(i) = 3 * x(i) * x(i) * g(i);
}
void cube_second(In gg, In g, In x, Made dg, Made dx) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        dg(i) = 3 * x(i) * x(i) * gg(i);
        dx(i) = 6 * x(i) * g(i) * gg(i);
    }
}

/// Each is the gradient of the other.
void gather(View<const double, 2, sizes<"n k">> x, View<const std::int64_t, 1, sizes<"m">> index,
            Out<double, 2, sizes<"m k">> y) {
    for (std::int64_t i = 0; i < index.extent(0); ++i)
        for (std::int64_t j = 0; j < x.extent(1); ++j) y(i, j) = x(index(i), j);
}
void scatter(View<const double, 2, sizes<"m k">> x, View<const std::int64_t, 1, sizes<"m">> index, std::int64_t n,
             Out<double, 2, sizes<"n k">> y) {
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < x.extent(1); ++j) y(i, j) = 0;
    for (std::int64_t i = 0; i < index.extent(0); ++i)
        for (std::int64_t j = 0; j < x.extent(1); ++j) y(index(i), j) += x(i, j);
}

/// A mask of its own for each call, which the gradient makes again.
bool is_dropped(const isthmus::Random& random, double p, std::int64_t i) {
    std::uint64_t x = random.seed() + random.offset() * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(i);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53 < p;
}
void dropout(isthmus::Random random, View<const float, 1, sizes<"n">> x, double p, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = is_dropped(random, p, i) ? 0 : x(i);
}
void dropout_gradient(View<const float, 1, sizes<"n">> g, isthmus::Random random, double p,
                      Out<float, 1, sizes<"n">> dx) {
    for (std::int64_t i = 0; i < g.extent(0); ++i) dx(i) = is_dropped(random, p, i) ? 0 : g(i);
}
/// The seed and the offset that a call was given.
void drawn(View<const float, 1> x, isthmus::Random random, Out<std::int32_t, 1, sizes<"4">> words) {
    const std::uint64_t both[2] = {random.seed(), random.offset()};
    if (x.extent(0) > 0) std::memcpy(words.data(), both, sizeof both);
}
void twice_random(View<const float, 1>, isthmus::Random, isthmus::Random, Out<float, 1, sizes<"1">>) {}

void doubled(View<const float, 1, sizes<"n">> x, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
}

void into(InOut<double, 1, sizes<"n">> x) { x(0) = 1; }
void maybe(In x, std::optional<Made> y) {
    if (y) (*y)(0) = x(0);
}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    PyObject* m = scratch.get();
    const std::string_view name = PyUnicode_AsUTF8(which);
    const auto cubed = [&] { return op<"bad::cube", cube>(m, {"x"}); };
    if (name == "takes") return cubed().gradient<cube_gradient>({.takes = {"grad_out", "y"}}), nullptr;
    if (name == "count") return cubed().gradient<cube_gradient>({.takes = {"grad_out"}}), nullptr;
    if (name == "of") return cubed().gradient<cube_gradient>({.of = {"z"}}), nullptr;
    if (name == "twice") return cubed().gradient<cube_gradient>({.of = {"x", "x"}}), nullptr;
    if (name == "results") return cubed().gradient<cube_second>({.takes = {"grad_out", "out", "x"}}), nullptr;
    if (name == "integer")
        return op<"bad::gather", gather>(m, {"x", "index"}).gradient<cube_gradient>({.of = {"index"}}), nullptr;
    if (name == "named") return cubed().gradient<"bad::other">(), nullptr;
    if (name == "absent") return op<"bad::maybe", maybe>(m, {"x"}), nullptr;
    if (name == "writes") return op<"bad::into", into>(m, {"x"}).gradient<cube_gradient>(), nullptr;
    if (name == "random") return op<"bad::twice_random", twice_random>(m, {"x", "a", "b"}), nullptr;
    if (name == "autocast") return cubed().autocast(isthmus::int32), nullptr;
    Py_RETURN_NONE;
}

PyObject* take_computed(PyObject*, PyObject*) { return PyLong_FromLong(computed.exchange(0)); }

bool bind(PyObject* m) {
    return op<"gradients::row_max", row_max<float>, row_max<double>>(m, {"x"})
               .gradient<row_max_gradient<float>, row_max_gradient<double>>(
                   {.takes = {"grad_out", "out[1]"}, .of = {"x"}}) &&
           op<"gradients::scaled", scaled>(m, {"x", "w"}).gradient<scaled_gradient>() &&
           op<"gradients::cube", cube>(m, {"x"}).gradient<cube_gradient>().gradient<cube_second>() &&
           op<"gradients::gather", gather>(m, {"x", "index"})
               .gradient<"gradients::scatter">({.takes = {"grad_out", "index", "n"}, .of = {"x"}}) &&
           op<"gradients::scatter", scatter>(m, {"x", "index", "n"})
               .gradient<"gradients::gather">({.takes = {"grad_out", "index"}}) &&
           op<"gradients::lost", gather>(m, {"x", "index"})
               .gradient<"gradients::nowhere">({.takes = {"grad_out", "index", "n"}}) &&
           op<"gradients::dropout", dropout>(m, {"random", "x", "p"})
               .gradient<dropout_gradient>({.takes = {"grad_out", "random", "p"}}) &&
           op<"gradients::drawn", drawn>(m, {"x", "random"}) &&
           op<"gradients::doubled", doubled>(m, {"x"}).autocast(isthmus::float32);
}

PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {"computed", take_computed, METH_NOARGS, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_gradients_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0) (void)(bind(m));
}
