// A tensor with a stride of the caller's choice in a dimension of one element.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include "../../python/support/module.h"

namespace {

PyObject* with_stride(PyObject*, PyObject* args) {
    unsigned long long address = 0;
    long long stride = 0;
    if (!PyArg_ParseTuple(args, "KL", &address, &stride)) return nullptr;
    try {
        auto* data = reinterpret_cast<float*>(address);
        const auto t =
            isthmus::Tensor::wrap(data, {2, 1, 3}, {3, stride, 1}, isthmus::float32, isthmus::Device::cpu(), nullptr);
        return *isthmus::to_py(t);
    } catch (const isthmus::Error& error) {
        return isthmus::set_python_error(error), nullptr;
    }
}

PyObject* to_numpy(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    auto array = isthmus::to_py(*tensor, isthmus::Framework::numpy);
    if (!array) return isthmus::set_python_error(array.error()), nullptr;
    auto copy = isthmus::copy_of(tensor->descriptor());
    return *array;
}

PyMethodDef methods[] = {{"with_stride", with_stride, METH_VARARGS, nullptr},
                         {"to_numpy", to_numpy, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "overflow", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_overflow() { return create_module(definition); }
