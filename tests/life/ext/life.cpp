// An extension that holds tensors, drops them wherever a test wants, and hands them out again: built with all visible.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../python/support/module.h"

#if !defined(MODULE)
#define MODULE life
#endif
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

namespace {

using isthmus::Tensor;

// Never destroyed, so that only the test decides when a tensor goes.
std::map<long, Tensor>& kept() {
    static auto* map = new std::map<long, Tensor>;
    return *map;
}
long next_number = 1;
std::mutex kept_mutex;  // of both: there may be no GIL

PyObject* raise(const isthmus::Error& error) { return isthmus::set_python_error(error), nullptr; }

PyObject* keep_tensor(Tensor tensor) {
    const std::lock_guard lock(kept_mutex);
    kept()[next_number] = std::move(tensor);
    return PyLong_FromLong(next_number++);
}

Tensor at(long number) {
    const std::lock_guard lock(kept_mutex);
    return kept().at(number);
}

Tensor take(PyObject* number) {
    const std::lock_guard lock(kept_mutex);
    const auto found = kept().find(PyLong_AsLong(number));
    if (found == kept().end()) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_KeyError, "no such tensor");
        return {};
    }
    Tensor tensor = std::move(found->second);
    kept().erase(found);
    return tensor;
}

PyObject* none_unless_failed() {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* own(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    return PyLong_FromVoidPtr(tensor->data());
}

PyObject* borrow(PyObject*, PyObject* x) {
    auto tensor = isthmus::borrow_py(x);
    if (!tensor) return raise(tensor.error());
    return PyLong_FromVoidPtr(tensor->data());
}

PyObject* keep(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    return keep_tensor(*std::move(tensor));
}

PyObject* empty(PyObject*, PyObject*) { return keep_tensor(Tensor::empty({7}, isthmus::float32)); }

PyObject* share(PyObject*, PyObject* number) { return keep_tensor(at(PyLong_AsLong(number))); }

PyObject* use_count(PyObject*, PyObject* number) {
    return PyLong_FromUnsignedLong(at(PyLong_AsLong(number)).use_count() - 1);
}

PyObject* drop(PyObject*, PyObject* number) {
    take(number);
    return none_unless_failed();
}

PyObject* drop_without_gil(PyObject*, PyObject* number) {
    Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    Py_BEGIN_ALLOW_THREADS tensor = {};
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/// drop_on_thread(number): on a thread that Python never saw, without waiting for it.
PyObject* drop_on_thread(PyObject*, PyObject* number) {
    Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    std::thread([tensor = std::move(tensor)]() mutable { tensor = {}; }).detach();
    Py_RETURN_NONE;
}

/// drop_later(number, microseconds): the same after a while, whatever the interpreter does by then.
PyObject* drop_later(PyObject*, PyObject* args) {
    PyObject* number = nullptr;
    long delay = 0;
    if (!PyArg_ParseTuple(args, "Ol", &number, &delay)) return nullptr;
    Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    std::thread([tensor = std::move(tensor), delay]() mutable {
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        tensor = {};
    }).detach();
    Py_RETURN_NONE;
}

/// export(number, framework): to_py of a kept tensor.
PyObject* export_as(PyObject*, PyObject* args) {
    long number = 0;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "ls", &number, &name)) return nullptr;
    const std::string framework = name;
    auto made = isthmus::to_py(at(number), framework == "numpy"     ? isthmus::Framework::numpy
                                           : framework == "capsule" ? isthmus::Framework::capsule
                                           : framework == "torch"   ? isthmus::Framework::torch
                                                                    : isthmus::Framework::tensor);
    return made ? *made : raise(made.error());
}

/// call_at_release(f): a kept tensor whose owner, a function of C++, calls f with the GIL.
PyObject* call_at_release(PyObject*, PyObject* f) {
    static float memory[4];
    Py_INCREF(f);
    return keep_tensor(Tensor::wrap(memory, {4}, {}, isthmus::float32, isthmus::Device::cpu(), [f] {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_XDECREF(PyObject_CallNoArgs(f));
        PyGILState_Release(state);
    }));
}

std::atomic<bool> churning{false};
std::atomic<long> churned{0};
std::vector<std::thread> churners;

/// churn(threads): threads without the GIL that make and drop tensors of 7 floats until stop_churn().
PyObject* churn(PyObject*, PyObject* count) {
    churning = true;
    for (long i = PyLong_AsLong(count); i > 0; --i)
        churners.emplace_back([] {
            while (churning) {
                const Tensor made = Tensor::empty({7}, isthmus::float32);
                const Tensor view = made.as_strided(made.data(), {7}, {1}, isthmus::float32);
                ++churned;
            }
        });
    Py_RETURN_NONE;
}
PyObject* stop_churn(PyObject*, PyObject*) {
    churning = false;
    Py_BEGIN_ALLOW_THREADS for (std::thread& thread : churners) thread.join();
    Py_END_ALLOW_THREADS churners.clear();
    return PyLong_FromLong(churned);
}

/// live(on): live_tracking(bool), or with None what live() gives, as (shape, dtype, producer).
PyObject* live(PyObject*, PyObject* on) {
    if (on != Py_None) return isthmus::live_tracking(on == Py_True), Py_NewRef(Py_None);
    PyObject* list = PyList_New(0);
    for (const isthmus::LiveTensor& t : isthmus::live()) {
        const isthmus::Ref row(Py_BuildValue("(nss)", static_cast<Py_ssize_t>(t.shape.size()), t.dtype.name().c_str(),
                                             t.producer.c_str()));
        if (!row || PyList_Append(list, row.get()) != 0) return Py_DECREF(list), nullptr;
    }
    return list;
}

PyMethodDef methods[] = {{"own", own, METH_O, "from_py(x), dropped at once: its address"},
                         {"borrow", borrow, METH_O, "borrow_py(x): its address"},
                         {"keep", keep, METH_O, "from_py(x), kept: its number"},
                         {"empty", empty, METH_NOARGS, "a new tensor of 7 floats, kept: its number"},
                         {"share", share, METH_O, "another handle on a kept tensor: its number"},
                         {"use_count", use_count, METH_O, "handles and exports of a kept tensor"},
                         {"drop", drop, METH_O, "gives a kept tensor back, with the GIL held"},
                         {"drop_without_gil", drop_without_gil, METH_O, "the same with the GIL released"},
                         {"drop_on_thread", drop_on_thread, METH_O, "the same on a thread of C++"},
                         {"drop_later", drop_later, METH_VARARGS, "the same after some microseconds"},
                         {"export", export_as, METH_VARARGS, "to_py of a kept tensor, in a framework by its name"},
                         {"call_at_release", call_at_release, METH_O, "a kept tensor whose owner calls a function"},
                         {"churn", churn, METH_O, "starts threads that make and drop tensors"},
                         {"stop_churn", stop_churn, METH_NOARGS, "ends them: how many tensors they made"},
                         {"live", live, METH_O, "the list of live tensors, switched or read"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, QUOTE(MODULE), nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PASTE(PyInit_, MODULE)() { return create_module(definition); }
