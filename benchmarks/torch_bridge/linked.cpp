// SPDX-License-Identifier: Apache-2.0
// The same functions by isthmus/torch.h.
#include <isthmus/torch.h>

namespace {

const void* volatile sink;
float memory[1000];

PyObject* raise(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

PyObject* borrow(PyObject*, PyObject* x) {
    const auto tensor = isthmus::borrow_py_torch(x);
    if (!tensor) return raise(tensor.error());
    sink = (*tensor)->data_ptr();
    Py_RETURN_NONE;
}
PyObject* own(PyObject*, PyObject* x) {
    const auto tensor = isthmus::from_py_torch(x);
    if (!tensor) return raise(tensor.error());
    sink = tensor->data_ptr();
    Py_RETURN_NONE;
}
PyObject* there_and_back(PyObject*, PyObject* x) {
    const auto tensor = isthmus::from_py_torch(x);
    if (!tensor) return raise(tensor.error());
    const auto object = isthmus::to_py(*tensor);
    return object ? *object : raise(object.error());
}
PyObject* out(PyObject*, PyObject*) {
    static const auto tensor =
        isthmus::Tensor::wrap(memory, {1000}, {}, isthmus::float32, isthmus::Device::cpu(), [] {});
    const auto made = isthmus::to_torch(tensor);
    if (!made) return raise(made.error());
    const auto object = isthmus::to_py(*made);
    return object ? *object : raise(object.error());
}
PyObject* checked(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py_torch(x).and_then([](const at::Tensor& t) { return isthmus::try_from_torch(t); });
    if (!tensor) return raise(tensor.error());
    sink = tensor->data();
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"borrow", borrow, METH_O, "borrow_py_torch"},
    {"own", own, METH_O, "from_py_torch"},
    {"there_and_back", there_and_back, METH_O, "from_py_torch, to_py"},
    {"out", out, METH_O, "Tensor::wrap, to_torch, to_py"},
    {"checked", checked, METH_O, "from_py_torch, from_torch: an isthmus::Tensor"},
    {nullptr, nullptr, 0, nullptr},
};
struct PyModuleDef definition{PyModuleDef_HEAD_INIT, "bench_bridge_linked", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_bench_bridge_linked() { return PyModule_Create(&definition); }
