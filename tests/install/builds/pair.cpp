// SPDX-License-Identifier: Apache-2.0
// An extension that makes a tensor and takes one: built several times, as by different projects. With IMPORT_ONLY it
// takes only.
#include <isthmus/python.h>

#include <vector>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

namespace {

#if !defined(IMPORT_ONLY)
PyObject* make(PyObject*, PyObject*) {
    auto result = isthmus::to_py(isthmus::Tensor::own(std::vector<float>{1, 2, 3}));
    if (!result) return isthmus::set_python_error(result.error()), nullptr;
    return *result;
}
#endif

PyObject* address(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return PyLong_FromVoidPtr(tensor->data());
}

PyObject* fail(PyObject*, PyObject*) {
    isthmus::set_python_error(isthmus::Error(isthmus::ErrorCode::needs_copy, "on purpose"));
    return nullptr;
}

PyMethodDef methods[] = {
#if !defined(IMPORT_ONLY)
    {"make", make, METH_NOARGS, nullptr},
#endif
    {"address", address, METH_O, nullptr},
    {"fail", fail, METH_NOARGS, nullptr},
    {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, QUOTE(MODULE), nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PASTE(PyInit_, MODULE)() { return PyModule_Create(&definition); }
