// SPDX-License-Identifier: Apache-2.0
// Arguments: what the list of a METH_FASTCALL function becomes.
#include <isthmus/python/arguments.h>

#include <isthmus/converted.h>
#include <isthmus/fields.h>

#include "ext.h"

namespace ext {
namespace {

using isthmus::View;

PyObject* distances(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    isthmus::Arguments<View<const float, 2, isthmus::sizes<"n d">>, View<const float, 2, isthmus::sizes<"m d">>,
                       std::optional<double>>
        in("distances", {"a", "b", "scale"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    auto [a, b, scale] = in.values();
    const isthmus::Tensor result = isthmus::Tensor::empty({a.extent(0), b.extent(0)}, isthmus::float32);
    const auto out = result.view<float, 2>().value();
    for (std::int64_t i = 0; i < a.extent(0); ++i)
        for (std::int64_t j = 0; j < b.extent(0); ++j) {
            out(i, j) = 0;
            for (std::int64_t k = 0; k < in.sizes()["d"]; ++k) out(i, j) += (a(i, k) - b(j, k)) * (a(i, k) - b(j, k));
            out(i, j) *= static_cast<float>(scale.value_or(1));
        }
    return in.reply(result);
}

/// Every kind of argument, as a tuple of what was understood.
PyObject* kinds(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    isthmus::Arguments<double, std::int64_t, bool, std::string_view, PyObject*, isthmus::Borrowed, isthmus::Tensor,
                       std::optional<View<float, 1>>, std::optional<isthmus::Tensor>>
        in("kinds", {"number", "integer", "flag", "text", "object", "borrowed", "tensor", "view", "kept"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    auto [number, integer, flag, text, object, borrowed, tensor, view, kept] = in.values();
    return Py_BuildValue("(dLOs#OLLLO)", number, static_cast<long long>(integer), flag ? Py_True : Py_False,
                         text.data(), static_cast<Py_ssize_t>(text.size()), object,
                         static_cast<long long>(borrowed.numel()), static_cast<long long>(tensor.numel()),
                         static_cast<long long>(view ? view->size() : -1), kept ? Py_True : Py_False);
}

/// In the framework of an argument that may be left out.
PyObject* ones_like(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    isthmus::Arguments<std::int64_t, std::optional<isthmus::Borrowed>> in("ones_like", {"count", "like"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    const isthmus::Tensor result = isthmus::Tensor::empty({in.get<0>()}, isthmus::float32);
    for (float& x : result.view<float, 1>().value().span()) x = 1;
    return in.reply(result, 1);
}

PyObject* image_height(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<const std::uint8_t, 3, isthmus::sizes<"h w 3">, isthmus::c_contiguous>> in("blur",
                                                                                                       {"image"});
    if (!in.parse(args, nargs)) return nullptr;
    return PyLong_FromLongLong(in.get<0>().extent(0));
}

PyObject* dot_converted(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    using Row = isthmus::Converted<View<const float, 1, isthmus::sizes<"n">>>;
    isthmus::Arguments<Row, std::optional<Row>> in("dot", {"x", "y"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    auto [x, y] = in.values();
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i)
        sum += static_cast<double>(x(i)) * static_cast<double>(y ? (*y)(i) : 1);
    return PyFloat_FromDouble(sum);
}

struct Weights {
    View<const float, 1, isthmus::sizes<"n">> x;
    std::optional<View<float, 1, isthmus::sizes<"n+1">>> sums;
    using fields = isthmus::fields<"x", "sums">;
};
struct Scaled {
    isthmus::Tensor x;
    using fields = isthmus::fields<"x">;
};

/// The weights times y, in the form of the weights; their sums so far are written where there is room for them.
PyObject* weigh(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<Weights, View<const float, 1, isthmus::sizes<"n">>> in("weigh", {"weights", "y"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [weights, y] = in.values();
    Scaled made{isthmus::copy_of(weights.x).value()};
    const auto out = made.x.view<float, 1>().value();
    if (weights.sums) (*weights.sums)(0) = 0;
    for (std::int64_t i = 0; i < y.extent(0); ++i) {
        out(i) *= y(i);
        if (weights.sums) (*weights.sums)(i + 1) = (*weights.sums)(i) + out(i);
    }
    return fields_to_py(isthmus::FieldsReply<Scaled>{made, in.object(0)});
}

}  // namespace

PyMethodDef argument_methods[] = {
    {"distances", method(distances), METH_FASTCALL | METH_KEYWORDS,
     "distances(a, b, scale=None): in the framework of a"},
    {"kinds", method(kinds), METH_FASTCALL | METH_KEYWORDS, "one argument of every kind"},
    {"ones_like", method(ones_like), METH_FASTCALL | METH_KEYWORDS,
     "ones_like(count, like=None): in the framework of like"},
    {"image_height", method(image_height), METH_FASTCALL, "the height of uint8[h, w, 3]"},
    {"dot", method(dot_converted), METH_FASTCALL | METH_KEYWORDS, "dot(x, y=None) of float32, or what becomes it"},
    {"weigh", method(weigh), METH_FASTCALL, "a struct of tensors, and the same form back"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
