// A program that starts and ends Python again and again, and keeps tensors over every end.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using isthmus::Tensor;

struct Kept {
    Tensor tensor;
    int life;
};
std::vector<Kept> kept;
int life = 0, ended = 0;

/// keep(x): from_py, kept beyond the end of this life.
PyObject* keep(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    kept.push_back({*std::move(tensor), life});
    Py_RETURN_NONE;
}
/// give(): an isthmus.Tensor over memory of C++, and the same again.
PyObject* give(PyObject*, PyObject*) {
    const Tensor made = Tensor::own(std::vector<float>{1, 2, 3});
    return *isthmus::to_py(made);
}
/// to(x, framework)
PyObject* to_numpy(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    auto array = isthmus::to_py(*tensor, isthmus::Framework::numpy);
    if (!array) return isthmus::set_python_error(array.error()), nullptr;
    return *array;
}
/// old(): the tensors of earlier lives are handed out in this one: memory of C++ alone.
PyObject* old(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    for (const Kept& k : kept)
        if (k.life < life) {
            auto object = isthmus::to_py(k.tensor);
            if (!object) return isthmus::set_python_error(object.error()), nullptr;
            PyList_Append(list, *object);
            Py_DECREF(*object);
        }
    return list;
}
PyObject* borrow(PyObject*, PyObject* x) {
    auto tensor = isthmus::borrow_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return PyLong_FromLongLong(tensor->numel());
}
PyObject* drop_on_threads(PyObject*, PyObject*) {
    for (Kept& k : kept)
        std::thread([t = std::move(k.tensor)]() mutable {
            std::this_thread::yield();
            t = {};
        }).detach();
    kept.clear();
    Py_RETURN_NONE;
}
PyObject* count(PyObject*, PyObject*) { return PyLong_FromSize_t(isthmus::live().size()); }

PyMethodDef methods[] = {{"keep", keep, METH_O, nullptr},         {"give", give, METH_NOARGS, nullptr},
                         {"to_numpy", to_numpy, METH_O, nullptr}, {"old", old, METH_NOARGS, nullptr},
                         {"borrow", borrow, METH_O, nullptr},     {"drop_on_threads", drop_on_threads, METH_NOARGS, nullptr},
                         {"count", count, METH_NOARGS, nullptr},  {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "lives", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyObject* make_module() { return PyModule_Create(&definition); }

bool start() {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    const PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return !PyStatus_Exception(status);
}

}  // namespace

/// lives COUNT DROP CODE: runs the Python code in each life; what is kept goes "between" lives, "within" the next, or "last".
int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const int lives = std::atoi(argv[1]);
    const std::string when = argv[2];
    PyImport_AppendInittab("lives", make_module);
    for (life = 1; life <= lives; ++life) {
        if (!start()) return 3;
        PyObject* module = PyImport_AddModule("__main__");
        PyObject_SetAttrString(module, "life", PyLong_FromLong(life));
        if (when == "within") kept.clear();
        if (PyRun_SimpleString(argv[3]) != 0) return 4;
        if (Py_FinalizeEx() != 0) return 5;
        ++ended;
        if (when == "between") kept.clear();
        if (when == "threads") {
            std::vector<std::thread> threads;
            for (Kept& k : kept) threads.emplace_back([t = std::move(k.tensor)]() mutable { t = {}; });
            kept.clear();
            for (std::thread& thread : threads) thread.join();
        }
    }
    kept.clear();
    std::printf("%d lives\n", ended);
    return 0;
}
