// What the soak tests call: every way in and out at once, from threads of Python and of C++.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../python/support/module.h"

namespace {

using isthmus::Tensor;

PyObject* raise(const isthmus::Error& error) { return isthmus::set_python_error(error), nullptr; }

/// exchange(x, framework, way): in by from_py or borrow_py, out by to_py, dropped as `way` says.
PyObject* exchange(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    int framework = 0, way = 0;
    if (!PyArg_ParseTuple(args, "Oii", &x, &framework, &way)) return nullptr;
    if (!PyCapsule_CheckExact(x))  // which can be taken once
        if (auto borrowed = isthmus::borrow_py(x); !borrowed) return raise(borrowed.error());
    auto taken = isthmus::from_py(x);
    if (!taken) return raise(taken.error());
    auto made = isthmus::to_py(*taken, static_cast<isthmus::Framework>(framework));
    if (!made) return raise(made.error());
    switch (way % 4) {
        case 0:
            break;
        case 1:
            Py_BEGIN_ALLOW_THREADS* taken = Tensor();
            Py_END_ALLOW_THREADS break;
        case 2:
            std::thread([t = *std::move(taken)]() mutable { t = {}; }).detach();
            break;
        default: {
            Tensor alias = taken->as_read_only();
            *taken = Tensor();
            Py_BEGIN_ALLOW_THREADS alias = Tensor();
            Py_END_ALLOW_THREADS
        }
    }
    return *made;
}

/// repeat(x, count): from_py and borrow_py in a loop of C++: how many succeeded.
PyObject* repeat(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    long long count = 0, good = 0;
    if (!PyArg_ParseTuple(args, "OL", &x, &count)) return nullptr;
    for (long long i = 0; i < count; ++i) good += isthmus::from_py(x).has_value() && isthmus::borrow_py(x).has_value();
    return PyLong_FromLongLong(good);
}

/// native(threads, count): threads of C++ that share, alias, export and drop tensors that they made.
PyObject* native(PyObject*, PyObject* args) {
    int threads = 0, count = 0;
    if (!PyArg_ParseTuple(args, "ii", &threads, &count)) return nullptr;
    std::atomic<long> made{0};
    const Tensor shared = Tensor::empty({64}, isthmus::float32);
    Py_BEGIN_ALLOW_THREADS std::vector<std::thread> all;
    for (int n = 0; n < threads; ++n)
        all.emplace_back([&] {
            for (int i = 0; i < count; ++i) {
                const Tensor own = Tensor::empty({8}, isthmus::float32);
                const Tensor view = (i % 2 == 0 ? own : shared).as_strided(own.data(), {4}, {2}, isthmus::float32);
                const auto again = Tensor::from_dlpack(view.as_read_only().to_dlpack());
                made += again.has_value() ? 1 : 0;
            }
        });
    for (std::thread& thread : all) thread.join();
    Py_END_ALLOW_THREADS return PyLong_FromLong(made);
}

PyMethodDef methods[] = {{"exchange", exchange, METH_VARARGS, nullptr},
                         {"repeat", repeat, METH_VARARGS, nullptr},
                         {"native", native, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "soak", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_soak() {
    PyObject* module = create_module(definition);
    if (module == nullptr) return nullptr;
    using isthmus::Framework;
    PyModule_AddIntConstant(module, "TENSOR", static_cast<int>(Framework::tensor));
    PyModule_AddIntConstant(module, "CAPSULE", static_cast<int>(Framework::capsule));
    PyModule_AddIntConstant(module, "NUMPY", static_cast<int>(Framework::numpy));
    PyModule_AddIntConstant(module, "TORCH", static_cast<int>(Framework::torch));
    return module;
}
