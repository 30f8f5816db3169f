// Drops a tensor of the main interpreter on a thread that runs another one, and looks where the owner went.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <string>
#include <thread>

#include "../../python/support/module.h"

namespace {

isthmus::Tensor kept;

PyObject* keep(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    kept = *std::move(tensor);
    Py_RETURN_NONE;
}

PyThreadState* new_interpreter(bool own_gil) {
#if PY_VERSION_HEX >= 0x030C0000
    PyInterpreterConfig config{};
    config.use_main_obmalloc = own_gil ? 0 : 1;
    config.allow_fork = config.allow_exec = 1;
    config.allow_threads = config.allow_daemon_threads = 1;
#if defined(Py_GIL_DISABLED)
    config.check_multi_interp_extensions = 1;  // there is no interpreter without
#else
    config.check_multi_interp_extensions = own_gil ? 1 : 0;
#endif
    config.gil = own_gil ? PyInterpreterConfig_OWN_GIL : PyInterpreterConfig_SHARED_GIL;
    PyThreadState* state = nullptr;
    if (PyStatus_Exception(Py_NewInterpreterFromConfig(&state, &config))) return nullptr;
    return state;
#else
    return own_gil ? nullptr : Py_NewInterpreter();
#endif
}

/// The code of a refusal; it keeps no exception, which is the other interpreter's.
template <class T>
std::string refusal(const isthmus::Result<T>& result, const char* otherwise) {
    if (result) return otherwise;
    return isthmus::error_code_name(result.error().code()) +
           std::string(result.error().cause() != nullptr ? ", with a cause" : "");
}

/// drop_within(own_gil, how): the kept tensor, while another interpreter runs on this thread: with its GIL "held", with
/// it "released", or "import": from_py of an object of that interpreter, whose error's code is returned.
PyObject* drop_within(PyObject*, PyObject* args) {
    int own_gil = 0;
    const char* how = nullptr;
    if (!PyArg_ParseTuple(args, "ps", &own_gil, &how)) return nullptr;
    std::string said;
    PyThreadState* main = PyThreadState_Get();
    PyThreadState* inner = new_interpreter(own_gil != 0);
    if (inner == nullptr) {
        PyThreadState_Swap(main);
        PyErr_SetString(PyExc_NotImplementedError, "no such interpreter here");
        return nullptr;
    }
    if (std::string(how) == "held") {
        kept = {};
    } else if (std::string(how) == "released") {
        Py_BEGIN_ALLOW_THREADS kept = {};
        Py_END_ALLOW_THREADS
    } else if (std::string(how) == "exported") {
        auto object = isthmus::to_py(kept);
        said = refusal(object, "handed out");
        if (object) Py_DECREF(*object);
        PyErr_Clear();
    } else {
        isthmus::Ref x(PyBytes_FromString("bytes"));
        auto taken = isthmus::from_py(x.get());
        said = refusal(taken, "taken");
        PyErr_Clear();
    }
    Py_EndInterpreter(inner);
    PyThreadState_Swap(main);
    return PyUnicode_FromString(said.c_str());
}

/// interpreter(): which one runs, as a number.
PyObject* interpreter(PyObject*, PyObject*) {
    return PyLong_FromLongLong(PyInterpreterState_GetID(PyInterpreterState_Get()));
}

PyMethodDef methods[] = {{"keep", keep, METH_O, nullptr},
                         {"drop_within", drop_within, METH_VARARGS, nullptr},
                         {"interpreter", interpreter, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "inner", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_inner() { return create_module(definition); }
