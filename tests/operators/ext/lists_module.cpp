// Operators whose arguments are lists, of tensors and of integers.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <optional>
#include <span>
#include <string_view>

namespace {

using isthmus::InOut;
using isthmus::on_cuda;
using isthmus::op;
using isthmus::Out;
using isthmus::packed;
using isthmus::sizes;
using isthmus::Stream;
using isthmus::View;

template <class T>
using Vectors = std::span<const View<const T, 1, sizes<"n">>>;
using Integers = std::span<const std::int64_t>;

/// The sum of vectors of one size, each with its weight.
template <class T>
void weighted(Vectors<T> xs, View<const T, 1, sizes<"m">> w, Out<T, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) {
        y(i) = 0;
        for (std::size_t k = 0; k < xs.size(); ++k) y(i) += xs[k](i) * w(static_cast<std::int64_t>(k));
    }
}
template <class T>
void weighted_gradient(View<const T, 1, sizes<"n">> g, Vectors<T> xs, View<const T, 1, sizes<"m">>,
                       Out<T, 1, sizes<"m">> dw) {
    for (std::int64_t k = 0; k < dw.extent(0); ++k) {
        dw(k) = 0;
        for (std::int64_t i = 0; i < g.extent(0); ++i) dw(k) += g(i) * xs[static_cast<std::size_t>(k)](i);
    }
}
/// The elements of vectors of any sizes, one after the other, up to n of them.
void joined(std::span<const View<const double, 1>> xs, std::int64_t n, Out<double, 1, sizes<"n">> y) {
    std::int64_t at = 0;
    for (const auto& x : xs)
        for (std::int64_t i = 0; i < x.extent(0) && at < n; ++i) y(at++) = x(i);
    while (at < n) y(at++) = -1;
}
/// The memory of a stand-in for a GPU is the host's.
void added(Vectors<float> xs, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) {
        y(i) = 0;
        for (const auto& x : xs) y(i) += x(i);
    }
}
void added_on_cuda(std::span<const View<const float, 1, sizes<"n">, on_cuda>> xs, Out<float, 1, sizes<"n">, on_cuda> y,
                   Stream) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) {
        y.data()[i] = 0;
        for (const auto& x : xs) y.data()[i] += x.data()[i];
    }
}
/// Running numbers over row-major elements.
void ranked(std::span<const View<const float, 2, packed>> xs, View<const float, 0> scale, Out<float, 0> y) {
    y() = 0;
    for (const auto& x : xs)
        for (std::size_t i = 0; i < x.span().size(); ++i) y() += scale() * static_cast<float>(i + 1) * x.span()[i];
}
/// x at some places; all of it without places.
void picked(View<const float, 1, sizes<"n">> x, std::optional<Integers> places, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = places ? 0 : x(i);
    if (places)
        for (const std::int64_t at : *places) y(at) = x(at);
}
void picked_gradient(View<const float, 1, sizes<"n">> g, View<const float, 1, sizes<"n">>,
                     std::optional<Integers> places, Out<float, 1, sizes<"n">> dx) {
    picked(g, places, dx);
}
/// Scaled sums of what was given: none of the integers need be there.
void total(View<const float, 1, sizes<"n">> x, Integers by, Out<double, 1, sizes<"n">> y) {
    std::int64_t sum = 0;
    for (const std::int64_t each : by) sum += each;
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<double>(x(i)) * static_cast<double>(sum);
}
/// Copies blocks within each cache: from mapping(i, 0) to mapping(i, 1).
void copy_blocks(std::span<const InOut<float, 2, sizes<"b k">>> caches,
                 View<const std::int64_t, 2, sizes<"m 2">> mapping) {
    for (const auto& cache : caches)
        for (std::int64_t i = 0; i < mapping.extent(0); ++i)
            for (std::int64_t k = 0; k < cache.extent(1); ++k) cache(mapping(i, 1), k) = cache(mapping(i, 0), k);
}
std::int64_t noted_elements = 0;
void note(std::span<const View<const float, 1>> xs) {
    for (const auto& x : xs) noted_elements += x.extent(0);
}

void of_formula(std::span<const View<const float, 1, sizes<"2*n">>>, View<const float, 1, sizes<"n">>, Out<float, 0>) {}
void of_set(std::span<const View<const isthmus::one_of<float, double>, 1>>, Out<isthmus::one_of<float, double>, 0>) {}

void wider_on_cuda(std::span<const View<const double, 1, sizes<"n">, on_cuda>>, Out<float, 1, sizes<"n">, on_cuda>,
                   Stream) {}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    const std::string_view name = PyUnicode_AsUTF8(which);
    if (name == "batch") return op<"bad::batched", joined>(scratch.get(), {"xs", "n"}, {.batch = true}), nullptr;
    if (name == "formula") return op<"bad::of_formula", of_formula>(scratch.get(), {"xs", "x"}), nullptr;
    if (name == "set") return op<"bad::of_set", of_set>(scratch.get(), {"xs"}), nullptr;
    if (name == "device") return op<"bad::added", added>(scratch.get(), {"xs"}).cuda<wider_on_cuda>(), nullptr;
    if (name == "gradient")
        return op<"bad::weighted", weighted<float>>(scratch.get(), {"xs", "w"})
                   .gradient<weighted_gradient<float>>({.of = {"xs"}}),
               nullptr;
    Py_RETURN_NONE;
}
PyObject* noted(PyObject*, PyObject*) { return PyLong_FromLongLong(noted_elements); }
PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {"noted", noted, METH_NOARGS, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_lists_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0)
        (void)(op<"lists::weighted", weighted<double>, weighted<float>>(m, {"xs", "w"})
                   .gradient<weighted_gradient<double>, weighted_gradient<float>>() &&
               op<"lists::joined", joined>(m, {"xs", "n"}) &&
               op<"lists::added", added>(m, {"xs"}).cuda<added_on_cuda>() &&
               op<"lists::ranked", ranked>(m, {"xs", "scale"}) &&
               op<"lists::picked", picked>(m, {"x", "places"}).gradient<picked_gradient>() &&
               op<"lists::total", total>(m, {"x", "by"}) &&
               op<"lists::copy_blocks", copy_blocks>(m, {"caches", "mapping"}) && op<"lists::note", note>(m, {"xs"}));
}
