// The same function as a handler of XLA, written by hand with the headers that jaxlib has.
// SPDX-License-Identifier: Apache-2.0
#include <Python.h>

#include <xla/ffi/api/ffi.h>

namespace ffi = xla::ffi;

static ffi::Error add(ffi::BufferR1<ffi::F32> x, ffi::BufferR1<ffi::F32> y, ffi::ResultBufferR1<ffi::F32> sum) {
    if (x.element_count() != y.element_count()) return ffi::Error::InvalidArgument("the sizes differ");
    for (size_t i = 0; i < x.element_count(); ++i) sum->typed_data()[i] = x.typed_data()[i] + y.typed_data()[i];
    return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    handler, add,
    ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>());

static PyObject* target(PyObject*, PyObject*) {
    return PyCapsule_New(reinterpret_cast<void*>(handler), nullptr, nullptr);
}
static PyMethodDef methods[] = {{"target", target, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "bench_xla_ffi", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_bench_xla_ffi() { return PyModule_Create(&definition); }
