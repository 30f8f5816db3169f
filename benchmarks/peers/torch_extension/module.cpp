// SPDX-License-Identifier: Apache-2.0
// With libtorch: torch's own caster for pybind11, and the pointer that hides in the Python object.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

namespace py = pybind11;

static const void* volatile sink;
static float* data;
static long owners;
static int64_t size;

static at::Tensor show() {
    ++owners;
    return at::from_blob(data, {size}, [](void*) { --owners; }, at::kFloat);
}

static PyObject* unpack_borrow(PyObject*, PyObject* x) {
    if (!THPVariable_Check(x)) return nullptr;
    sink = THPVariable_Unpack(x).data_ptr();
    Py_RETURN_NONE;
}
static PyObject* unpack_own(PyObject*, PyObject* x) {
    if (!THPVariable_Check(x)) return nullptr;
    at::Tensor owned = THPVariable_Unpack(x);
    sink = owned.data_ptr();
    Py_RETURN_NONE;
}
static PyObject* wrap(PyObject*, PyObject*) { return THPVariable_Wrap(show()); }

static PyMethodDef bare[] = {
    {"unpack_borrow", unpack_borrow, METH_O, nullptr},
    {"unpack_own", unpack_own, METH_O, nullptr},
    {"wrap", wrap, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PYBIND11_MODULE(bench_torch_extension, m) {
    PyModule_AddFunctions(m.ptr(), bare);
    m.def("own", [](const at::Tensor& x) { sink = x.data_ptr(); });
    m.def("kernel", [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& out) {
        sink = x.data_ptr();
        sink = y.data_ptr();
        sink = out.data_ptr();
    });
    m.def("round_trip", [](const at::Tensor& x) { return x; });
    m.def("to_torch", [](py::handle) { return show(); });
    m.def("set_size", [](int64_t n) {
        std::free(data);
        data =
            static_cast<float*>(std::aligned_alloc(64, (static_cast<std::size_t>(n) * sizeof(float) + 63) / 64 * 64));
        size = n;
        if (n <= 1 << 20) std::memset(data, 0, static_cast<std::size_t>(n) * sizeof(float));
    });
}
