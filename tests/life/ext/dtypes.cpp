// What this build of the headers knows of DLPack's type codes.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include "../../python/support/module.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

namespace {

PyObject* parse(PyObject*, PyObject* text) {
    isthmus::DType dtype;
    const char* name = PyUnicode_AsUTF8(text);
    if (name == nullptr) return nullptr;
    if (!isthmus::DType::parse(name, dtype)) Py_RETURN_NONE;
    return Py_BuildValue("(iii)", int{dtype.code}, dtype.bits(), dtype.lanes());
}

PyObject* name(PyObject*, PyObject* args) {
    int code = 0, bits = 0;
    if (!PyArg_ParseTuple(args, "ii", &code, &bits)) return nullptr;
    return PyUnicode_FromString(isthmus::DType(code, bits).name().c_str());
}

PyObject* own(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return PyUnicode_FromString(tensor->dtype().name().c_str());
}

PyMethodDef methods[] = {{"parse", parse, METH_O, "(code, bits, lanes) of a name, or None"},
                         {"name", name, METH_VARARGS, "the name of (code, bits)"},
                         {"own", own, METH_O, "from_py(x): the name of its dtype"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, QUOTE(MODULE), nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PASTE(PyInit_, MODULE)() { return create_module(definition); }
