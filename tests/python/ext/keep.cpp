// SPDX-License-Identifier: Apache-2.0
// Tensors that outlive the call, by a number; dropped wherever the test wants them to be.
#include "ext.h"

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace ext {
namespace {

// Never destroyed, so that only the test decides when a tensor goes.
std::map<long, isthmus::Tensor>& kept() {
    static auto* map = new std::map<long, isthmus::Tensor>;
    return *map;
}
long next_number = 1;
std::mutex kept_mutex;  // of both: there may be no GIL

PyObject* insert(isthmus::Tensor tensor) {
    const std::lock_guard lock(kept_mutex);
    kept()[next_number] = std::move(tensor);
    return PyLong_FromLong(next_number++);
}

// Destroyed by the C++ runtime when the process ends, long after the interpreter.
std::vector<isthmus::Tensor> until_exit;

isthmus::Tensor* find(PyObject* number) {
    const std::lock_guard lock(kept_mutex);
    const auto found = kept().find(PyLong_AsLong(number));
    if (found != kept().end()) return &found->second;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_KeyError, "no such tensor");
    return nullptr;
}

isthmus::Tensor take(PyObject* number) {
    isthmus::Tensor* found = find(number);
    if (found == nullptr) return {};
    isthmus::Tensor tensor = std::move(*found);
    const std::lock_guard lock(kept_mutex);
    kept().erase(PyLong_AsLong(number));
    return tensor;
}

PyObject* keep(PyObject*, PyObject* args, PyObject* kwargs) {
    Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    auto tensor = isthmus::from_py(options.object, options.import);
    if (!tensor) return raise(tensor.error());
    return insert(*std::move(tensor));
}

PyObject* kept_info(PyObject*, PyObject* number) {
    const isthmus::Tensor* tensor = find(number);
    if (tensor == nullptr) return nullptr;
    PyObject* dict = info(*tensor);
    isthmus::Ref count(PyLong_FromUnsignedLong(tensor->use_count()));
    if (dict != nullptr && PyDict_SetItemString(dict, "use_count", count.get()) != 0) Py_CLEAR(dict);
    return dict;
}

PyObject* kept_elements(PyObject*, PyObject* number) {
    const isthmus::Tensor* tensor = find(number);
    return tensor != nullptr ? elements(*tensor) : nullptr;
}

/// The isthmus.Tensor that shows a kept tensor.
PyObject* kept_object(PyObject*, PyObject* number) {
    const isthmus::Tensor* tensor = find(number);
    if (tensor == nullptr) return nullptr;
    const auto object = isthmus::to_py(*tensor);
    return object ? *object : raise(object.error());
}

/// A description of a kept tensor's memory that holds the tensor and no object that shows it.
PyObject* kept_read_only(PyObject*, PyObject* number) {
    const isthmus::Tensor* tensor = find(number);
    if (tensor == nullptr) return nullptr;
    const auto object = isthmus::to_py(tensor->as_read_only());
    return object ? *object : raise(object.error());
}

/// What the garbage collector does to an object of a dead cycle; code that still has it may then use it.
PyObject* clear_as_collector(PyObject*, PyObject* object) {
    if (Py_TYPE(object)->tp_clear == nullptr)
        return PyErr_Format(PyExc_TypeError, "no object that the collector clears");
    Py_TYPE(object)->tp_clear(object);
    Py_RETURN_NONE;
}

/// give_back(number, object): a kept tensor, to an object that it may have come from.
PyObject* give_back(PyObject*, PyObject* args) {
    PyObject *number = nullptr, *object = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &number, &object)) return nullptr;
    isthmus::Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    isthmus::roll_back(object, tensor);
    Py_RETURN_NONE;
}

PyObject* share(PyObject*, PyObject* number) {
    const isthmus::Tensor* tensor = find(number);
    if (tensor == nullptr) return nullptr;
    return insert(*tensor);
}

PyObject* drop(PyObject*, PyObject* number) {
    take(number);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* drop_without_gil(PyObject*, PyObject* number) {
    isthmus::Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    Py_BEGIN_ALLOW_THREADS tensor = {};
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/// drop_on_thread(number, gil): on a thread that Python never saw.
PyObject* drop_on_thread(PyObject*, PyObject* args) {
    PyObject* number = nullptr;
    int gil = 0;
    if (!PyArg_ParseTuple(args, "Op", &number, &gil)) return nullptr;
    isthmus::Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    Py_BEGIN_ALLOW_THREADS std::thread([&] {
        if (!gil) {
            tensor = {};
            return;
        }
        const PyGILState_STATE state = PyGILState_Ensure();
        tensor = {};
        PyGILState_Release(state);
    }).join();
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/// drop_later(number, microseconds): on a detached thread, whatever the interpreter does by then.
PyObject* drop_later(PyObject*, PyObject* args) {
    PyObject* number = nullptr;
    long delay = 0;
    if (!PyArg_ParseTuple(args, "Ol", &number, &delay)) return nullptr;
    isthmus::Tensor tensor = take(number);
    if (PyErr_Occurred()) return nullptr;
    std::thread([tensor = std::move(tensor), delay]() mutable {
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        tensor = {};
    }).detach();
    Py_RETURN_NONE;
}

PyObject* keep_until_exit(PyObject*, PyObject* object) {
    auto tensor = isthmus::from_py(object);
    if (!tensor) return raise(tensor.error());
    until_exit.push_back(*std::move(tensor));
    Py_RETURN_NONE;
}

}  // namespace

PyMethodDef keep_methods[] = {
    {"keep", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(keep)), METH_VARARGS | METH_KEYWORDS,
     "from_py(x), kept: its number"},
    {"kept", kept_info, METH_O, "what a kept tensor says of itself"},
    {"kept_elements", kept_elements, METH_O, "its elements as row-major bytes"},
    {"kept_object", kept_object, METH_O, "a kept tensor as an isthmus.Tensor"},
    {"kept_read_only", kept_read_only, METH_O, "another description of a kept tensor's memory, as an isthmus.Tensor"},
    {"clear_as_collector", clear_as_collector, METH_O, "calls tp_clear"},
    {"give_back", give_back, METH_VARARGS, "gives a kept tensor back to the object that it came from"},
    {"share", share, METH_O, "another handle on a kept tensor: its number"},
    {"drop", drop, METH_O, "gives a kept tensor back, with the GIL held"},
    {"drop_without_gil", drop_without_gil, METH_O, "the same with the GIL released"},
    {"drop_on_thread", drop_on_thread, METH_VARARGS, "the same on a thread of C++, with or without the GIL"},
    {"drop_later", drop_later, METH_VARARGS, "the same after some microseconds, on a detached thread"},
    {"keep_until_exit", keep_until_exit, METH_O, "from_py(x) into a static that the C++ runtime destroys"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
