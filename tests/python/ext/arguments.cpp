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

template <class T, class... Order>
PyObject* shown_as(PyObject* x) {
    isthmus::Arguments<View<T, 2, Order...>> in("shown", {"x"});
    if (!in.parse(&x, 1)) return nullptr;
    const auto& view = in.template get<0>();
    return Py_BuildValue("K(LL)(LL)", reinterpret_cast<std::uintptr_t>(view.data()),
                         static_cast<long long>(view.extent(0)), static_cast<long long>(view.extent(1)),
                         static_cast<long long>(view.stride(0)), static_cast<long long>(view.stride(1)));
}
/// shown(kind, x): the address, sizes and strides of a view of float32 and two dimensions.
PyObject* shown(PyObject*, PyObject* args) {
    const char* kind = nullptr;
    PyObject* x = nullptr;
    if (!PyArg_ParseTuple(args, "sO", &kind, &x)) return nullptr;
    const std::string_view order = kind;
    return order == "c"       ? shown_as<const float, isthmus::c_contiguous>(x)
           : order == "f"     ? shown_as<const float, isthmus::f_contiguous>(x)
           : order == "inner" ? shown_as<const float, isthmus::inner_contiguous>(x)
           : order == "write" ? shown_as<float>(x)
                              : shown_as<const float>(x);
}
/// load_twice(first, second): one loader, of a view of float32, loads both; whether each fitted.
PyObject* load_twice(PyObject*, PyObject* args) {
    PyObject *first = nullptr, *second = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &first, &second)) return nullptr;
    isthmus::detail::ArgumentLoader<View<float, 1>> loader;
    View<float, 1> value;
    const bool one = loader.try_load(first, value, true) == isthmus::detail::Loaded::yes;
    const bool two = loader.try_load(second, value, true) == isthmus::detail::Loaded::yes;
    if (!loader.commit("load_twice", "second")) return nullptr;
    return Py_BuildValue("OO", one ? Py_True : Py_False, two ? Py_True : Py_False);
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
    {"shown", shown, METH_VARARGS, "shown(kind, x): the address, sizes and strides of a view of float32"},
    {"load_twice", load_twice, METH_VARARGS, "load_twice(first, second): by one loader"},
    {"image_height", method(image_height), METH_FASTCALL, "the height of uint8[h, w, 3]"},
    {"dot", method(dot_converted), METH_FASTCALL | METH_KEYWORDS, "dot(x, y=None) of float32, or what becomes it"},
    {"weigh", method(weigh), METH_FASTCALL, "a struct of tensors, and the same form back"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
