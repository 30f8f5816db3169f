#include <isthmus/python.h>

namespace {

// The very object that came in goes out, with its first element changed.
PyObject* poke(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x, {.require_writable = true, .argument = "x"});
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    auto view = tensor->view<float, 1>();
    if (!view) return isthmus::set_python_error(view.error()), nullptr;
    (*view)(0) = 42;
    auto result = isthmus::to_py_like(*tensor, x);
    if (!result) return isthmus::set_python_error(result.error()), nullptr;
    return *result;
}

PyMethodDef methods[] = {{"poke", poke, METH_O, nullptr}, {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "consumer", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_consumer() { return PyModule_Create(&definition); }
