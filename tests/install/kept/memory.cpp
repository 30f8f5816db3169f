// A module of memory that crosses processes as somebody compiled it once: a pool, a segment, a hand-over.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/shared.h>

using namespace isthmus;

namespace {

template <class F>
PyObject* guarded(F&& f) {
    try {
        return to_py(f(), Framework::tensor).value();
    } catch (const Error& error) {
        set_python_error(error);
        return nullptr;
    }
}
PyObject* pooled(PyObject*, PyObject*) {
    return guarded([] {
        shared::Pool pool({.limit = std::size_t{1} << 21});
        Tensor t = pool.empty({3}, float32).value();
        const shared::PoolStats stats = pool.stats();
        if (stats.segments != 1 || stats.free + 4096 != stats.reserved || stats.lent != 0)
            throw Error(ErrorCode::bad_argument, "other numbers");
        return t;
    });
}
PyObject* cut(PyObject*, PyObject*) {
    return guarded([] {
        const shared::Segment segment = shared::Segment::create(4096).value(), same = segment;
        return same.tensor({2}, float32, 8).value();
    });
}
PyObject* passed(PyObject*, PyObject* args) {
    int from = 0, to = 0;
    PyObject* x = nullptr;
    if (PyArg_ParseTuple(args, "iiO", &from, &to, &x) == 0) return nullptr;
    return guarded([&] {
        const Tensor t = shared::share(from_py(x).value()).value();
        shared::send(from, t, shared::Access::copy_on_write, {.timeout_ms = 1000}).value();
        return shared::receive(to, shared::Access::read_only, {.timeout_ms = 1000}).value();
    });
}

PyMethodDef methods[] = {{"pooled", pooled, METH_NOARGS, ""},
                         {"cut", cut, METH_NOARGS, ""},
                         {"passed", passed, METH_VARARGS, ""},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "memory", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_memory() { return PyModule_Create(&definition); }
