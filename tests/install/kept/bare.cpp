// A module of the bare API as somebody compiled it once: imports, exports, arguments, errors, the live list, files.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/arguments.h>  // Python.h must come before any standard header

#include <isthmus/converted.h>
#include <isthmus/core/live.h>
#include <isthmus/load.h>

using namespace isthmus;

namespace {

PyObject* borrowed_sum(PyObject*, PyObject* x) {
    const auto t = borrow_py(x, {.argument = "x"});
    if (!t) return set_python_error(t.error()), nullptr;
    const auto v = t->view<const float, 1>();
    if (!v) return set_python_error(v.error()), nullptr;
    double sum = 0;
    for (const float e : *v) sum += e;
    return PyFloat_FromDouble(sum);
}
PyObject* back(PyObject*, PyObject* x) {
    const auto t = from_py(x);
    auto r = t ? to_py_like(*t, x) : Result<PyObject*>(t.error());
    return r ? *r : (set_python_error(r.error()), nullptr);
}
/// Parts, other shapes, a copy, and an owner of this module's.
PyObject* parts(PyObject*, PyObject* x) {
    try {
        const Tensor t = from_py(x).value();
        const Tensor part = t.slice(0, 0, 2).reshape({1, 2}).transpose().contiguous();
        const Tensor copied = copy_of(part).value();
        auto* values = new float[2]{copied.view<const float, 2>().value()(0, 0), 5};
        const Tensor own = Tensor::wrap(values, {2}, {}, float32, Device::cpu(), [values] { delete[] values; });
        return to_py(own.as_read_only(), Framework::numpy).value();
    } catch (const Error& error) {
        set_python_error(error);
        return nullptr;
    }
}
PyObject* scaled(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Arguments<View<const float, 1, sizes<"n">>, Converted<View<const float, 1, sizes<"n">>>, std::optional<double>,
              bool>
        in("scaled", {"a", "b", "factor", "negative"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    const auto& [a, b, factor, negative] = in.values();
    const Tensor result = Tensor::empty({a.extent(0)}, float32);
    const auto out = result.view<float, 1>().value();
    const double sign = negative ? -1 : 1;
    for (std::int64_t i = 0; i < a.extent(0); ++i) out(i) = static_cast<float>(sign * factor.value_or(1) * a(i) * b(i));
    return in.reply(result);
}
PyObject* alive(PyObject*, PyObject*) {
    live_tracking(true);
    const Tensor t = Tensor::empty({2, 3}, float32);
    const auto list = live();
    live_tracking(false);
    return PyUnicode_FromFormat("%d %s %d", static_cast<int>(list.size()), list[0].producer.c_str(),
                                static_cast<int>(list[0].nbytes));
}
PyObject* loaded(PyObject*, PyObject* path) {
    try {
        const Ref text(PyUnicode_AsUTF8String(path));
        const TensorFile file = load(PyBytes_AsString(text.get())).value();
        const auto& [key, value] = file.metadata().at(0);
        const std::string words = file.entries().at(0).name + " " + key + "=" + value + " ";
        return PyUnicode_FromString((words + file.at("x").value().dtype().name()).c_str());
    } catch (const Error& error) {
        set_python_error(error);
        return nullptr;
    }
}

#define FAST(f) {#f, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS, ""}
PyMethodDef methods[] = {{"borrowed_sum", borrowed_sum, METH_O, ""},
                         {"back", back, METH_O, ""},
                         {"parts", parts, METH_O, ""},
                         FAST(scaled),
                         {"alive", alive, METH_NOARGS, ""},
                         {"loaded", loaded, METH_O, ""},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "bare", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_bare() { return PyModule_Create(&definition); }
