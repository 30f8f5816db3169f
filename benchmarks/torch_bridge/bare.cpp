// SPDX-License-Identifier: Apache-2.0
// The floor with libtorch: its own inline functions, one call each, in functions of the bare CPython API.
#include <torch/csrc/autograd/python_variable.h>

#include <ATen/ops/from_blob.h>

namespace {

const void* volatile sink;
float memory[1000];

PyObject* borrow(PyObject*, PyObject* x) {
    if (!THPVariable_Check(x)) return nullptr;
    sink = THPVariable_Unpack(x).data_ptr();
    Py_RETURN_NONE;
}
PyObject* own(PyObject*, PyObject* x) {
    if (!THPVariable_Check(x)) return nullptr;
    const at::Tensor owned = THPVariable_Unpack(x);
    sink = owned.data_ptr();
    Py_RETURN_NONE;
}
PyObject* there_and_back(PyObject*, PyObject* x) {
    if (!THPVariable_Check(x)) return nullptr;
    const at::Tensor owned = THPVariable_Unpack(x);
    return THPVariable_Wrap(owned);
}
PyObject* out(PyObject*, PyObject*) {
    return THPVariable_Wrap(at::from_blob(memory, {1000}, [](void*) {}, at::kFloat));
}

PyMethodDef methods[] = {
    {"borrow", borrow, METH_O, "THPVariable_Unpack"},
    {"own", own, METH_O, "a copy of what it gives"},
    {"there_and_back", there_and_back, METH_O, "THPVariable_Wrap of that"},
    {"out", out, METH_O, "from_blob, THPVariable_Wrap"},
    {nullptr, nullptr, 0, nullptr},
};
struct PyModuleDef definition{PyModuleDef_HEAD_INIT, "bench_bridge_bare", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_bench_bridge_bare() { return PyModule_Create(&definition); }
