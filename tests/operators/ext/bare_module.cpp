// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/arguments.h>

#include "functions.h"

namespace {

namespace f = functions;

void plain(isthmus::View<const float, 1> x, isthmus::Out<float, 1> y) { y(0) = x(0); }
void unknown_size(isthmus::View<const float, 1, isthmus::sizes<"n">> x, isthmus::Out<float, 1, isthmus::sizes<"m">> y) {
    y(0) = x(0);
}
void no_tensor(double x, isthmus::Out<float, 1> y) { y(0) = static_cast<float>(x); }
void gradient_of_less(isthmus::View<const float, 1> g, isthmus::Out<float, 1> dx) { dx(0) = g(0); }

void add_of_less(isthmus::View<const float, 1, isthmus::sizes<"n">, isthmus::on_cuda> x,
                 isthmus::View<const float, 1, isthmus::sizes<"m">, isthmus::on_cuda>,
                 isthmus::Out<float, 1, isthmus::sizes<"n">, isthmus::on_cuda> sum, isthmus::Stream) {
    sum.data()[0] = x.data()[0];
}

void add_without_sizes(isthmus::View<const float, 1, isthmus::sizes<"n">, isthmus::on_cuda> x,
                       isthmus::View<const float, 1, isthmus::on_cuda>,
                       isthmus::Out<float, 1, isthmus::sizes<"n">, isthmus::on_cuda> sum, isthmus::Stream) {
    sum.data()[0] = x.data()[0];
}
void shift_three(isthmus::View<const double, 1, isthmus::sizes<"n">, isthmus::on_cuda> x, double, std::int64_t, bool,
                 isthmus::Out<double, 1, isthmus::sizes<"3">, isthmus::on_cuda> y, isthmus::Stream) {
    y.data()[0] = x.data()[0];
}

/// No tensor that must be there.
void times_count(std::optional<isthmus::View<const float, 1, isthmus::sizes<"n">>> x, double by,
                 isthmus::Out<float, 0> y) {
    y() = static_cast<float>(by) * static_cast<float>(x ? x->extent(0) : 1);
}
/// A dtype that NumPy itself does not have.
void brain(isthmus::View<const f::Brain, 1, isthmus::sizes<"n">> x, isthmus::Out<f::Brain, 1, isthmus::sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i);
}
/// Memory of any device, by its address alone.
void anywhere(isthmus::View<const float, 1, isthmus::on_any_device> x, isthmus::Out<double, 0> y) {
    y() = static_cast<double>(reinterpret_cast<std::uintptr_t>(x.data()));
}
/// Overloads with more loops for NumPy than an operator has room for.
template <class T>
void many_loops(isthmus::View<const isthmus::any_dtype, 1> x, isthmus::View<const T, 1>, isthmus::Out<double, 0> y) {
    y() = static_cast<double>(x.extent(0));
}

/// Registrations that must fail, by name.
PyObject* refuse(PyObject*, PyObject* which) {
    const isthmus::Ref scratch(PyModule_New("scratch"));
    PyObject* self = scratch.get();
    const std::string_view name = PyUnicode_AsUTF8(which);
    using isthmus::op;
    if (name == "few names") return op<"bad::plain", plain>(self, {}), nullptr;
    if (name == "many names")
        return op<"bad::plain", plain>(self, {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
                                              "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z"}),
               nullptr;
    if (name == "no namespace") return op<"plain", plain>(self, {"x"}), nullptr;
    if (name == "hyphen") return op<"bad::pla-in", plain>(self, {"x"}), nullptr;
    if (name == "name twice") return op<"bad::dot", f::dot>(self, {"x", "x"}), nullptr;
    if (name == "named out") return op<"bad::plain", plain>(self, {"out"}), nullptr;
    if (name == "unknown size") return op<"bad::unknown_size", unknown_size>(self, {"x"}), nullptr;
    if (name == "no tensor") return op<"bad::no_tensor", no_tensor>(self, {"x"}), nullptr;
    if (name == "default type") return op<"bad::first", f::first>(self, {"x", isthmus::arg("k") = "three"}), nullptr;
    if (name == "gradient inputs") return op<"bad::plain", plain>(self, {"x"}).gradient<gradient_of_less>(), nullptr;
    if (name == "cuda sizes") return op<"bad::add", f::add<float>>(self, {"x", "y"}).cuda<add_of_less>(), nullptr;
    if (name == "cuda dtype")
        return op<"bad::add", f::add<float>>(self, {"x", "y"}).cuda<f::add_on_cuda<double>>(), nullptr;
    if (name == "cuda no sizes")
        return op<"bad::add", f::add<float>>(self, {"x", "y"}).cuda<add_without_sizes>(), nullptr;
    if (name == "cuda overloads")
        return op<"bad::add", f::add<float>, f::add<double>>(self, {"x", "y"}).cuda<add_of_less>(), nullptr;
    if (name == "cuda result")
        return op<"bad::shift", f::shift>(self, {"x", "by", "times", "back"}).cuda<shift_three>(), nullptr;
    if (name == "cuda gradient")
        return op<"bad::add", f::add<float>>(self, {"x", "y"}).cuda_gradient<f::add_gradient_on_cuda>(), nullptr;
    if (name == "gradient writes") return op<"bad::add_to", f::add_to>(self, {"y", "x"}).gradient<plain>(), nullptr;
    Py_RETURN_NONE;
}

/// The same as the operator geo::distance, bound by hand.
PyObject* distance_by_hand(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<f::Points<float>, f::Others<float>> in("distance", {"a", "b"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [a, b] = in.values();
    isthmus::Tensor out = isthmus::Tensor::empty({a.extent(0), b.extent(0)}, isthmus::float32);
    auto view = out.view<float, 2, isthmus::sizes<"n m">>();
    PyThreadState* state = PyEval_SaveThread();
    f::distance<float>(a, b, *view);
    PyEval_RestoreThread(state);
    return in.reply(out);
}

PyMethodDef methods[] = {
    {"refuse", refuse, METH_O, nullptr},
    {"last_call", [](PyObject*, PyObject*) { return f::last_call(); }, METH_NOARGS, nullptr},
    {"last_stream", [](PyObject*, PyObject*) { return PyLong_FromVoidPtr(f::last_stream.load()); }, METH_NOARGS,
     nullptr},
    {"distance_by_hand", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(distance_by_hand)), METH_FASTCALL,
     nullptr},
    {}};
int fill(PyObject* module) {
    using isthmus::op;
    const bool good =
        functions::bind(module) && op<ISTHMUS_TEST_SPACE "::times_count", times_count>(module, {"x", "by"}) &&
        op<ISTHMUS_TEST_SPACE "::brain", brain>(module, {"x"}) &&
        op<ISTHMUS_TEST_SPACE "::anywhere", anywhere>(module, {"x"}) &&
        op<ISTHMUS_TEST_SPACE "::many_loops", many_loops<float>, many_loops<double>, many_loops<std::int8_t>,
           many_loops<std::int16_t>, many_loops<std::int32_t>, many_loops<std::int64_t>>(module, {"x", "y"});
    return good ? 0 : -1;
}
PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill)},
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "isthmus_operators_test_ext", nullptr, 0, methods, slots};

}  // namespace

PyMODINIT_FUNC PyInit_isthmus_operators_test_ext() { return PyModuleDef_Init(&definition); }
