// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <vector>

#if !defined(MODULE)
#define MODULE bench_isthmus
#endif
#define JOINED(a, b) a##b
#define INIT(module) JOINED(PyInit_, module)

using isthmus::Framework;
using isthmus::Tensor;

namespace {

#if defined(Py_GIL_DISABLED)
thread_local  // or the threads would share a cache line
#endif
    void* volatile sink;
Tensor held;  // the memory that the exports show

PyObject* raise(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

PyObject* borrow(PyObject*, PyObject* x) {
    auto t = isthmus::borrow_py(x);
    if (!t) return raise(t.error());
    sink = t->data();
    Py_RETURN_NONE;
}

PyObject* typed(PyObject*, PyObject* x) {
    auto t = isthmus::borrow_py(x);
    if (!t) return raise(t.error());
    auto v = t->view<const float, 1>();
    if (!v) return raise(v.error());
    sink = const_cast<float*>(v->data());
    Py_RETURN_NONE;
}

PyObject* own(PyObject*, PyObject* x) {
    auto t = isthmus::from_py(x);
    if (!t) return raise(t.error());
    sink = t->data();
    Py_RETURN_NONE;
}

PyObject* kernel(PyObject*, PyObject* const* args, Py_ssize_t n) {
    if (n != 3) return PyErr_Format(PyExc_TypeError, "three arguments");
    auto x = isthmus::borrow_py(args[0]);
    if (!x) return raise(x.error());
    auto y = isthmus::borrow_py(args[1]);
    if (!y) return raise(y.error());
    auto out = isthmus::borrow_py(args[2]);
    if (!out) return raise(out.error());
    sink = x->data();
    sink = y->data();
    sink = out->data();
    Py_RETURN_NONE;
}

PyObject* round_trip(PyObject*, PyObject* x) {
    auto t = isthmus::from_py(x);
    if (!t) return raise(t.error());
    sink = t->data();
    auto back = isthmus::to_py_like(*t, x);
    return back ? *back : raise(back.error());
}

// A typed function that hands its argument back has the object at hand.
PyObject* typed_round_trip(PyObject* self, PyObject* x) {
    PyObject* none = typed(self, x);
    if (none == nullptr) return nullptr;
    Py_DECREF(none);
    return Py_NewRef(x);
}

// Keeps an imported tensor, and hands it back: the way home alone.
Tensor guest;
PyObject* hold(PyObject*, PyObject* x) {
    auto t = isthmus::from_py(x);
    if (!t) return raise(t.error());
    guest = *std::move(t);
    Py_RETURN_NONE;
}
PyObject* back(PyObject*, PyObject* x) {
    auto object = isthmus::to_py_like(guest, x);
    return object ? *object : raise(object.error());
}

template <Framework framework>
PyObject* to(PyObject*, PyObject*) {
    auto object = isthmus::to_py(held, framework);
    return object ? *object : raise(object.error());
}

// As a function does that makes its result: the vector is made in the call.
PyObject* vector_to_capsule(PyObject*, PyObject*) {
    auto object = isthmus::to_py(Tensor::own(std::vector<float>(16)), Framework::capsule);
    return object ? *object : raise(object.error());
}

PyObject* set_size(PyObject*, PyObject* n) {
    const Py_ssize_t size = PyLong_AsSsize_t(n);
    if (size < 0) return nullptr;
    held = Tensor::empty({size}, isthmus::float32);
    if (size <= 1 << 20) std::memset(held.data(), 0, static_cast<std::size_t>(held.nbytes()));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"borrow", borrow, METH_O, nullptr},
    {"typed", typed, METH_O, nullptr},
    {"own", own, METH_O, nullptr},
    {"kernel", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kernel)), METH_FASTCALL, nullptr},
    {"round_trip", round_trip, METH_O, nullptr},
    {"typed_round_trip", typed_round_trip, METH_O, nullptr},
    {"hold", hold, METH_O, nullptr},
    {"back", back, METH_O, nullptr},
    {"to_torch", to<Framework::torch>, METH_O, nullptr},
    {"to_numpy", to<Framework::numpy>, METH_O, nullptr},
    {"to_jax", to<Framework::jax>, METH_O, nullptr},
    {"to_tensorflow", to<Framework::tensorflow>, METH_O, nullptr},
    {"to_paddle", to<Framework::paddle>, METH_O, nullptr},
    {"to_capsule", to<Framework::capsule>, METH_O, nullptr},
    {"vector_to_capsule", vector_to_capsule, METH_O, nullptr},
    {"to_legacy_capsule", to<Framework::capsule_legacy>, METH_O, nullptr},
    {"to_tensor", to<Framework::tensor>, METH_O, nullptr},
    {"set_size", set_size, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "bench_isthmus", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC INIT(MODULE)() {
    PyObject* module = PyModule_Create(&definition);
#if defined(Py_GIL_DISABLED)
    if (module != nullptr) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
