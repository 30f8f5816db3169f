// Operators whose sizes have runs of dimensions under one name, sizes<"b... e k...">.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <string_view>

namespace {

using isthmus::c_contiguous;
using isthmus::dynamic_rank;
using isthmus::op;
using isthmus::Out;
using isthmus::packed;
using isthmus::sizes;
using isthmus::View;

template <class T, isthmus::detail::Literal text>
using Any = View<const T, dynamic_rank, sizes<text>, packed>;
template <class T, isthmus::detail::Literal text>
using AnyOut = Out<T, dynamic_rank, sizes<text>, c_contiguous>;

std::int64_t product(const auto& view, int from, int to) {
    std::int64_t size = 1;
    for (int d = from; d < to; ++d) size *= view.extent(d);
    return size;
}

/// The sizes of a gather: of what is before the dimension that is indexed, of it, of the index and of what is behind.
struct Places {
    std::int64_t b, e, n, k;
    template <class X>
    Places(const X& x, const Any<std::int64_t, "b... n">& index)
        : b(product(x, 0, index.ndim() - 1)),
          e(x.extent(index.ndim() - 1)),
          n(index.extent(index.ndim() - 1)),
          k(product(x, index.ndim(), x.ndim())) {}
};
template <class T>
void gather(Any<T, "b... e k..."> x, Any<std::int64_t, "b... n"> index, AnyOut<T, "b... n k..."> y) {
    const Places of(x, index);
    for (std::int64_t b = 0; b < of.b; ++b)
        for (std::int64_t n = 0; n < of.n; ++n)
            for (std::int64_t k = 0; k < of.k; ++k)
                y.data()[(b * of.n + n) * of.k + k] = x.data()[(b * of.e + index.data()[b * of.n + n]) * of.k + k];
}
template <class T>
void gather_gradient(Any<T, "b... n k..."> g, Any<std::int64_t, "b... n"> index, AnyOut<T, "b... e k..."> dx) {
    const Places of(dx, index);
    for (std::int64_t i = 0; i < of.b * of.e * of.k; ++i) dx.data()[i] = 0;
    for (std::int64_t b = 0; b < of.b; ++b)
        for (std::int64_t n = 0; n < of.n; ++n)
            for (std::int64_t k = 0; k < of.k; ++k)
                dx.data()[(b * of.e + index.data()[b * of.n + n]) * of.k + k] += g.data()[(b * of.n + n) * of.k + k];
}
void outer(Any<float, "a..."> x, Any<float, "b..."> y, AnyOut<float, "a... b..."> z) {
    const std::int64_t a = product(x, 0, x.ndim()), b = product(y, 0, y.ndim());
    for (std::int64_t i = 0; i < a * b; ++i) z.data()[i] = x.data()[i / b] * y.data()[i % b];
}
/// The diagonal of a square tensor of twice as many dimensions.
void diagonal(Any<float, "a... a..."> x, AnyOut<float, "a..."> y) {
    const std::int64_t size = product(y, 0, y.ndim());
    for (std::int64_t i = 0; i < size; ++i) y.data()[i] = x.data()[i * size + i];
}
void affine(Any<float, "b... k"> x, View<const float, 2, sizes<"k m">> w, std::optional<Any<float, "b... m">> bias,
            AnyOut<float, "b... m"> y) {
    const std::int64_t rows = product(x, 0, x.ndim() - 1), m = w.extent(1);
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < m; ++j) {
            y.data()[i * m + j] = bias ? bias->data()[i * m + j] : 0;
            for (std::int64_t k = 0; k < w.extent(0); ++k)
                y.data()[i * m + j] += x.data()[i * w.extent(0) + k] * w(k, j);
        }
}
/// Pairs of neighbours along a dimension, of three channels, whose runs an argument that may be absent tells apart.
void neighbours(Any<double, "b... n+1 3 k..."> x, std::optional<Any<double, "b... n">> w, AnyOut<double, "b... n"> y) {
    const std::int64_t n = y.extent(y.ndim() - 1), b = product(y, 0, y.ndim() - 1);
    const std::int64_t step = product(x, 0, x.ndim()) / (b * (n + 1));
    for (std::int64_t i = 0; i < b; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            const double* from = x.data() + (i * (n + 1) + j) * step;
            y.data()[i * n + j] = (from[step] - from[0]) * (w ? w->data()[i * n + j] : 1);
        }
}
void spread(View<const float, 0> x, std::optional<Any<double, "b...">>, AnyOut<float, "b..."> y) {
    for (std::int64_t i = 0; i < product(y, 0, y.ndim()); ++i) y.data()[i] = x();
}
void apart(Any<float, "a... b...">, AnyOut<float, "a...">) {}
void unknown(Any<float, "a...">, AnyOut<float, "c...">) {}
void in_list(std::span<const Any<float, "a...">>, Any<float, "a...">, AnyOut<float, "a...">) {}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    const std::string_view name = PyUnicode_AsUTF8(which);
    if (name == "apart") return op<"bad::apart", apart>(scratch.get(), {"x"}), nullptr;
    if (name == "unknown") return op<"bad::unknown", unknown>(scratch.get(), {"x"}), nullptr;
    if (name == "list") return op<"bad::in_list", in_list>(scratch.get(), {"xs", "x"}), nullptr;
    if (name == "batch") return op<"bad::diagonal", diagonal>(scratch.get(), {"x"}, {.batch = true}), nullptr;
    Py_RETURN_NONE;
}
PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_runs_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0)
        (void)(op<"runs::gather", gather<float>, gather<double>>(m, {"x", "index"})
                   .gradient<gather_gradient<float>, gather_gradient<double>>({.takes = {"grad_out", "index"}}) &&
               op<"runs::outer", outer>(m, {"x", "y"}) && op<"runs::spread", spread>(m, {"x", "like"}) &&
               op<"runs::diagonal", diagonal>(m, {"x"}) && op<"runs::affine", affine>(m, {"x", "w", "bias"}) &&
               op<"runs::neighbours", neighbours>(m, {"x", "w"}));
}
