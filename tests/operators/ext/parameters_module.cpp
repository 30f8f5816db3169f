// Operators with every kind of parameter: packed views, dtypes, optional scalars, lists.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>
#include <isthmus/visit.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

using isthmus::any_dtype;
using isthmus::arg;
using isthmus::DType;
using isthmus::dtype_like;
using isthmus::InOut;
using isthmus::on_cuda;
using isthmus::one_of;
using isthmus::op;
using isthmus::Out;
using isthmus::packed;
using isthmus::sizes;
using isthmus::Stream;
using isthmus::View;

/// Running sums over the elements in row-major order, by span(): right only if the view is row-major.
template <class T>
void running(View<const T, 2, sizes<"n k">, packed> x, std::optional<View<const T, 1, sizes<"k">, packed>> w,
             Out<T, 2, sizes<"n k">> y) {
    T sum = 0;
    for (std::size_t i = 0; i < x.span().size(); ++i) {
        sum += x.span()[i] * (w ? w->span()[i % w->span().size()] : T{1});
        y.span()[i] = sum;
    }
}
template <class T>
void running_gradient(View<const T, 2, sizes<"n k">, packed> g, View<const T, 2, sizes<"n k">, packed> x,
                      std::optional<View<const T, 1, sizes<"k">, packed>> w, Out<T, 2, sizes<"n k">> dx, Out<T, 1> dw) {
    for (T& element : dw.span()) element = 0;
    T sum = 0;
    for (std::size_t i = g.span().size(); i-- > 0;) {
        sum += g.span()[i];
        const std::size_t k = w ? i % w->span().size() : 0;
        dx.span()[i] = sum * (w ? w->span()[k] : T{1});
        if (w) dw.span()[k] += sum * x.span()[i];
    }
}
/// The memory of a stand-in for a GPU is the host's.
void running_on_cuda(View<const float, 2, sizes<"n k">, packed, on_cuda> x,
                     std::optional<View<const float, 1, sizes<"k">, packed, on_cuda>>,
                     Out<float, 2, sizes<"n k">, on_cuda> y, Stream) {
    for (std::int64_t i = 0; i < x.extent(0) * x.extent(1); ++i) y.data()[i] = x.data()[i];
}
void total(View<const float, 2, sizes<"n k">, packed> x, Out<float, 0> y) {
    y() = 0;
    for (std::size_t i = 0; i < x.span().size(); ++i) y() += static_cast<float>(i + 1) * x.span()[i];
}

bool bind_packed(PyObject* m) {
    return op<"parameters::running", running<double>, running<float>>(m, {"x", "w"})
               .gradient<running_gradient<double>, running_gradient<float>>()
               .cuda<running_on_cuda>() &&
           op<"parameters::total", total>(m, {"x"}, {.batch = true});
}

/// An array of a dtype that the caller says.
void filled(View<const any_dtype, 1, sizes<"n">> like, DType dtype, double value,
            Out<dtype_like<"dtype">, 1, sizes<"n">> y) {
    (void)like;
    if (y.dtype() != dtype) throw std::runtime_error("the result is of another dtype");
    y.visit<float, double, std::int32_t, std::int64_t>([&](auto to) {
        using T = typename decltype(to)::element_type;
        for (std::int64_t i = 0; i < to.extent(0); ++i) to(i) = static_cast<T>(value);
    });
}
/// A dtype with a default, which need not be that of the result; its width in bits.
void bits(View<const float, 1>, std::optional<DType> first, DType second, Out<std::int64_t, 1, sizes<"2">> y) {
    y(0) = first ? first->bits() : -1;
    y(1) = second.bits();
}
/// Indices of either width, as the framework has them.
using Index = one_of<std::int32_t, std::int64_t>;
void shifted(View<const Index, 1, sizes<"n">> index, std::int64_t by, Out<Index, 1, sizes<"n">> y) {
    index.visit([&](auto from) {
        using T = typename decltype(from)::value_type;
        const auto to = y.template as<T>().value();
        for (std::int64_t i = 0; i < from.extent(0); ++i) to(i) = static_cast<T>(from(i) + by);
    });
}

bool bind_dtypes(PyObject* m) {
    return op<"parameters::filled", filled>(m, {"like", "dtype", arg("value") = 1.0}) &&
           op<"parameters::bits", bits>(m, {"x", "first", arg("second") = isthmus::float16}) &&
           op<"parameters::shifted", shifted>(m, {"index", arg("by") = 1});
}

/// Every scalar that may be None: what came, as numbers.
void scalars(View<const float, 1> x, std::optional<double> number, std::optional<std::int64_t> integer,
             std::optional<bool> flag, std::optional<std::string_view> text, Out<double, 1, sizes<"4">> y) {
    (void)x;
    y(0) = number ? *number : -1;
    y(1) = integer ? static_cast<double>(*integer) : -1;
    y(2) = flag ? *flag : -1;
    y(3) = text ? static_cast<double>(text->size()) : -1;
}
/// A sum that is also kept, where the caller has a place for it.
void add_and_keep(View<const float, 1, sizes<"n">> x, View<const float, 1, sizes<"n">> y,
                  std::optional<InOut<float, 1, sizes<"n">>> kept, Out<float, 1, sizes<"n">> sum) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        sum(i) = x(i) + y(i);
        if (kept) (*kept)(i) += sum(i);
    }
}

bool bind_optional(PyObject* m) {
    return op<"parameters::scalars", scalars>(m, {"x", "number", arg("integer") = 7, "flag", "text"}) &&
           op<"parameters::add_and_keep", add_and_keep>(m, {"x", "y", "kept"});
}

/// Sums of rows between borders: one row fewer than there are borders.
template <class T>
void segments(View<const T, 2, sizes<"m k">> x, View<const std::int64_t, 1, sizes<"n+1">> borders,
              Out<T, 2, sizes<"n k">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i)
        for (std::int64_t k = 0; k < y.extent(1); ++k) {
            y(i, k) = 0;
            for (std::int64_t r = borders(i); r < borders(i + 1); ++r) y(i, k) += x(r, k);
        }
}
template <class T>
void segments_gradient(View<const T, 2, sizes<"n k">> g, View<const T, 2, sizes<"m k">>,
                       View<const std::int64_t, 1, sizes<"n+1">> borders, Out<T, 2, sizes<"m k">> dx) {
    for (std::int64_t i = 0; i < dx.extent(0); ++i)
        for (std::int64_t k = 0; k < dx.extent(1); ++k) dx(i, k) = 0;
    for (std::int64_t i = 0; i < g.extent(0); ++i)
        for (std::int64_t r = borders(i); r < borders(i + 1); ++r)
            for (std::int64_t k = 0; k < g.extent(1); ++k) dx(r, k) = g(i, k);
}
/// Differences of neighbours, and all of them with both ends.
void differences(View<const double, 1, sizes<"n">> x, Out<double, 1, sizes<"n-1">> y, Out<double, 1, sizes<"n+2">> z) {
    for (std::int64_t i = 0; i + 1 < x.extent(0); ++i) y(i) = x(i + 1) - x(i);
    for (std::int64_t i = 0; i < z.extent(0); ++i) z(i) = i > 0 && i <= x.extent(0) ? x(i - 1) : 0;
}
/// Channels become places, as in position-sensitive pooling.
void unfold(View<const float, 2, sizes<"k c">> x, std::int64_t h, std::int64_t w,
            Out<float, 4, sizes<"k c/(h*w) h w">> y) {
    const std::int64_t step = h * w;
    for (std::int64_t k = 0; k < x.extent(0); ++k)
        for (std::int64_t c = 0; c < x.extent(1); ++c) y(k, c / step, c % step / w, c % w) = x(k, c);
}
/// The other way: the size of an argument is checked.
void fold(View<const float, 1, sizes<"h*w">> x, View<const float, 1, sizes<"h">> rows,
          View<const float, 1, sizes<"w">> columns, Out<float, 1, sizes<"2*h+w">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i)
        y(i) = i < rows.extent(0)                       ? rows(i)
               : i - rows.extent(0) < columns.extent(0) ? columns(i - rows.extent(0))
                                                        : x(0);
}
void without_n(View<const float, 1, sizes<"m">>, Out<float, 1, sizes<"2*n">>) {}
void of_no_n(View<const float, 1, sizes<"n*n">>, Out<float, 0>) {}

/// The boxes that no better one covers by more than half, the best first.
float covered(View<const float, 2, sizes<"n 4">> boxes, std::int64_t a, std::int64_t b) {
    const auto area = [&](std::int64_t i) { return (boxes(i, 2) - boxes(i, 0)) * (boxes(i, 3) - boxes(i, 1)); };
    const float w = std::min(boxes(a, 2), boxes(b, 2)) - std::max(boxes(a, 0), boxes(b, 0));
    const float h = std::min(boxes(a, 3), boxes(b, 3)) - std::max(boxes(a, 1), boxes(b, 1));
    const float both = std::max(w, 0.0F) * std::max(h, 0.0F);
    return both / (area(a) + area(b) - both);
}
template <class Index>
void nms(View<const float, 2, sizes<"n 4">> boxes, View<const float, 1, sizes<"n">> scores, double threshold,
         Out<Index, 1, sizes<"<=n">> keep) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(scores.extent(0)));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores(a) > scores(b); });
    std::int64_t count = 0;
    for (const std::int64_t i : order) {
        bool good = true;
        for (std::int64_t k = 0; good && k < count; ++k)
            good = covered(boxes, static_cast<std::int64_t>(keep(k)), i) <= static_cast<float>(threshold);
        if (good) keep(count++) = static_cast<Index>(i);
    }
    keep.resize(count);
}
void nms64(View<const float, 2, sizes<"n 4">> boxes, View<const float, 1, sizes<"n">> scores, double threshold,
           Out<std::int64_t, 1, sizes<"<=n">> keep) {
    nms<std::int64_t>(boxes, scores, threshold, keep);
}
/// Rows of x whose mask is set; x and its mask may have any number of rows, the result has at most so many.
void masked(View<const float, 2, sizes<"n k">> x, View<const bool, 1, sizes<"n">> mask, Out<float, 2, sizes<"<=n k">> y,
            Out<std::int32_t, 1, sizes<"<=n">> where) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        if (!mask(i)) continue;
        for (std::int64_t j = 0; j < x.extent(1); ++j) y(count, j) = x(i, j);
        where(count++) = static_cast<std::int32_t>(i);
    }
    y.resize(count);
    where.resize(count);
}
void masked_gradient(View<const float, 2, sizes<"m k">> g, View<const std::int32_t, 1, sizes<"m">> where,
                     Out<float, 2, sizes<"n k">> dx) {
    for (std::int64_t i = 0; i < dx.extent(0); ++i)
        for (std::int64_t j = 0; j < dx.extent(1); ++j) dx(i, j) = 0;
    for (std::int64_t i = 0; i < where.extent(0); ++i)
        for (std::int64_t j = 0; where(i) >= 0 && j < dx.extent(1); ++j) dx(where(i), j) = g(i, j);
}
/// Says a number of rows that is given, whatever it is.
void first_rows(View<const float, 1, sizes<"n">> x, std::int64_t count, Out<float, 1, sizes<"<=2*n">> y) {
    for (std::int64_t i = 0; i < y.extent(0); ++i) y(i) = x(i % x.extent(0));
    if (count != -7) y.resize(count);
}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    const std::string_view name = PyUnicode_AsUTF8(which);
    if (name == "result") return op<"bad::without_n", without_n>(scratch.get(), {"x"}), nullptr;
    if (name == "batch") return op<"bad::masked", masked>(scratch.get(), {"x", "mask"}, {.batch = true}), nullptr;
    if (name == "argument") return op<"bad::of_no_n", of_no_n>(scratch.get(), {"x"}), nullptr;
    Py_RETURN_NONE;
}

bool bind_formulas(PyObject* m) {
    return op<"parameters::segments", segments<float>, segments<double>>(m, {"x", "borders"})
               .gradient<segments_gradient<float>, segments_gradient<double>>() &&
           op<"parameters::differences", differences>(m, {"x"}) &&
           op<"parameters::unfold", unfold>(m, {"x", "h", "w"}) &&
           op<"parameters::fold", fold>(m, {"x", "rows", "columns"});
}

bool bind_rows(PyObject* m) {
    return op<"parameters::nms", nms<std::int32_t>>(m, {"boxes", "scores", "threshold"}) &&
           op<"parameters::nms64", nms64>(m, {"boxes", "scores", "threshold"}) &&
           op<"parameters::first_rows", first_rows>(m, {"x", "count"}) &&
           op<"parameters::masked", masked>(m, {"x", "mask"})
               .gradient<masked_gradient>({.takes = {"grad_out", "out[1]"}});
}

PyMethodDef methods[] = {{"refuse", refuse, METH_O, nullptr}, {}};

}  // namespace

ISTHMUS_MODULE(isthmus_operators_parameters_test_ext, m, isthmus::free_threaded) {
    if (PyModule_AddFunctions(m, methods) == 0)
        (void)(bind_packed(m) && bind_dtypes(m) && bind_optional(m) && bind_formulas(m) && bind_rows(m));
}
