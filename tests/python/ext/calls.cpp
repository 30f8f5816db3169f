// SPDX-License-Identifier: Apache-2.0
// Functions as an author binds them, which read and write their arguments; and imports with an exception already set.
#include <isthmus/python/arguments.h>

#include "../support/module.h"
#include "ext.h"

namespace ext {
namespace {

using isthmus::View;

/// copy_into(out, x): float32[n] into float32[n].
PyObject* copy_into(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<float, 1, isthmus::sizes<"n">>, View<const float, 1, isthmus::sizes<"n">>> in("copy_into",
                                                                                                          {"out", "x"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [out, x] = in.values();
    for (std::int64_t i = 0; i < out.extent(0); ++i) out(i) = x(i);
    Py_RETURN_NONE;
}

/// scale(out, factor): in place, of any rank; the second argument is no tensor.
PyObject* scale(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<float, 1>, double> in("scale", {"out", "factor"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [out, factor] = in.values();
    for (std::int64_t i = 0; i < out.extent(0); ++i) out(i) *= static_cast<float>(factor);
    Py_RETURN_NONE;
}

/// swap(a, b): the elements of two tensors, both written.
PyObject* swap(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<float, 1, isthmus::sizes<"n">>, View<float, 1, isthmus::sizes<"n">>> in("swap", {"a", "b"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [a, b] = in.values();
    for (std::int64_t i = 0; i < a.extent(0); ++i) std::swap(a(i), b(i));
    Py_RETURN_NONE;
}

/// total(x): a number, which has no gradient anyway; its author lets every tensor in.
PyObject* total(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<const float, 1, isthmus::allow_grad>> in("total", {"x"});
    if (!in.parse(args, nargs)) return nullptr;
    const View<const float, 1>& x = in.get<0>();
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum += static_cast<double>(x(i));
    return PyFloat_FromDouble(sum);
}

/// clear(out): zeros, into every tensor, as an optimiser does.
PyObject* clear(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<std::optional<View<float, 1, isthmus::allow_grad>>> in("clear", {"out"});
    if (!in.parse(args, nargs)) return nullptr;
    auto& out = in.get<0>();
    for (std::int64_t i = 0; out && i < out->extent(0); ++i) (*out)(i) = 0;
    Py_RETURN_NONE;
}

/// twice(x): a new tensor in the framework of x.
PyObject* twice(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<View<const float, 1>> in("twice", {"x"});
    if (!in.parse(args, nargs)) return nullptr;
    const auto& x = in.get<0>();
    const isthmus::Tensor result = isthmus::Tensor::empty({x.extent(0)}, isthmus::float32);
    auto out = result.view<float, 1>().value();
    for (std::int64_t i = 0; i < out.extent(0); ++i) out(i) = 2 * x(i);
    return in.reply(result);
}

/// doubled(factor, x): a new tensor made where x lives, as set_results() says.
PyObject* doubled(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<double, View<const float, 1>> in("doubled", {"factor", "x"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [factor, x] = in.values();
    try {
        const isthmus::Tensor result = isthmus::empty_like(in.object(1), {x.extent(0)}, isthmus::float32);
        auto out = result.view<float, 1>().value();
        for (std::int64_t i = 0; i < x.extent(0); ++i) out(i) = static_cast<float>(factor) * x(i);
        return in.result(result);
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// set_results(name): "reply", or a framework.
PyObject* set_results(PyObject*, PyObject* name) {
    isthmus::Framework framework{};
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) return nullptr;
    if (std::string_view(text) == "reply")
        isthmus::set_default_result(isthmus::Reply());
    else if (isthmus::parse_framework(text, framework))
        isthmus::set_default_result(framework);
    Py_RETURN_NONE;
}

/// add(x, value): to every element of a float32 tensor of any rank, by a writable view of a Borrowed, with or without
/// the wish for writable memory when it was imported.
PyObject* add(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"x", "value", "announce", nullptr};
    PyObject* object = nullptr;
    float value = 0;
    int announce = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Of|$p", const_cast<char**>(names), &object, &value, &announce))
        return nullptr;
    isthmus::ImportOptions options;
    options.require_writable = announce != 0;
    options.argument = "x";
    const auto borrowed = isthmus::borrow_py(object, options);
    if (!borrowed) return raise(borrowed.error());
    const auto view = borrowed->view<float, isthmus::dynamic_rank>();
    if (!view) return raise(view.error());
    for (std::int64_t i = 0; i < view->size(); ++i) {
        std::int64_t rest = i, offset = 0;
        for (int d = static_cast<int>(view->shape().size()) - 1; d >= 0; --d) {
            const auto at = static_cast<std::size_t>(d);
            offset += rest % view->shape()[at] * view->strides()[at];
            rest /= view->shape()[at];
        }
        view->data()[offset] += value;
    }
    Py_RETURN_NONE;
}

/// take_pending(x, owning): borrow_py or from_py while a LookupError is set: (what failed or None, what is set
/// afterwards or None).
PyObject* take_pending(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    int owning = 0;
    if (!PyArg_ParseTuple(args, "Op", &object, &owning)) return nullptr;
    std::string failure;
    PyErr_SetString(PyExc_LookupError, "set before");
    if (owning != 0) {
        const auto tensor = isthmus::from_py(object);
        if (!tensor) failure = tensor.error().what();
    } else {
        const auto borrowed = isthmus::borrow_py(object);
        if (!borrowed) failure = borrowed.error().what();
    }
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    isthmus::Ref held(type), kept(value), line(trace);
    return Py_BuildValue("(zO)", failure.empty() ? nullptr : failure.c_str(), value != nullptr ? value : Py_None);
}

/// hand_pending(x, framework): from_py(x), then to_py while a LookupError is set: the same two.
PyObject* hand_pending(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    const char* name = nullptr;
    isthmus::Framework framework{};
    if (!PyArg_ParseTuple(args, "Os", &object, &name)) return nullptr;
    if (!isthmus::parse_framework(name, framework)) return PyErr_Format(PyExc_ValueError, "no framework %s", name);
    const auto tensor = isthmus::from_py(object);
    if (!tensor) return raise(tensor.error());
    PyErr_SetString(PyExc_LookupError, "set before");
    const auto handed = isthmus::to_py(*tensor, framework);
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    isthmus::Ref held(type), kept(value), line(trace), result(handed ? *handed : nullptr);
    return Py_BuildValue("(zO)", handed ? nullptr : handed.error().what(), value != nullptr ? value : Py_None);
}

template <class F>
PyCFunction cast(F f) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef methods[] = {
    {"copy_into", cast(copy_into), METH_FASTCALL, "copy_into(out, x)"},
    {"scale", cast(scale), METH_FASTCALL, "scale(out, factor)"},
    {"swap", cast(swap), METH_FASTCALL, "swap(a, b)"},
    {"total", cast(total), METH_FASTCALL, "total(x)"},
    {"clear", cast(clear), METH_FASTCALL, "clear(out)"},
    {"twice", cast(twice), METH_FASTCALL, "twice(x): in the framework of x"},
    {"doubled", cast(doubled), METH_FASTCALL, "doubled(factor, x): where x lives"},
    {"set_results", set_results, METH_O, "set_results(name): what doubled() returns"},
    {"add", cast(add), METH_VARARGS | METH_KEYWORDS, "add(x, value, announce=True): in place"},
    {"take_pending", take_pending, METH_VARARGS, "take_pending(x, owning): an import with an exception set"},
    {"hand_pending", hand_pending, METH_VARARGS, "hand_pending(x, framework): an exit with an exception set"},
    {nullptr, nullptr, 0, nullptr},
};
struct PyModuleDef definition{PyModuleDef_HEAD_INIT, "isthmus_test_calls", nullptr, -1, methods};

}  // namespace
}  // namespace ext

PyMODINIT_FUNC PyInit_isthmus_test_calls() { return create_module(ext::definition); }
