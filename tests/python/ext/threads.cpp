// SPDX-License-Identifier: Apache-2.0
// Imports from threads of C++.
#include "ext.h"

#include <atomic>
#include <thread>
#include <vector>

namespace ext {
namespace {

/// from_py on a thread without the GIL: the error's code by name, "" when there was none.
PyObject* import_without_gil(PyObject*, PyObject* object) {
    std::string code, text;
    Py_BEGIN_ALLOW_THREADS std::thread([&] {
        auto tensor = isthmus::from_py(object);
        if (!tensor) {
            code = isthmus::error_code_name(tensor.error().code());
            text = tensor.error().what();
        }
    }).join();
    Py_END_ALLOW_THREADS return Py_BuildValue("(ss)", code.c_str(), text.c_str());
}

/// The same on this thread, after it gave the GIL away.
PyObject* import_after_release(PyObject*, PyObject* object) {
    std::string code;
    Py_BEGIN_ALLOW_THREADS auto tensor = isthmus::borrow_py(object);
    if (!tensor) code = isthmus::error_code_name(tensor.error().code());
    Py_END_ALLOW_THREADS return PyUnicode_FromString(code.c_str());
}

/// storm(x, threads, rounds): each thread imports with the GIL, shares and drops without; how many imports succeeded.
PyObject* storm(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    int threads = 0, rounds = 0;
    if (!PyArg_ParseTuple(args, "Oii", &object, &threads, &rounds)) return nullptr;
    std::atomic<long> good{0};
    Py_BEGIN_ALLOW_THREADS std::vector<std::thread> all;
    for (int n = 0; n < threads; ++n)
        all.emplace_back([&] {
            std::vector<isthmus::Tensor> mine;
            for (int i = 0; i < rounds; ++i) {
                const PyGILState_STATE state = PyGILState_Ensure();
                auto tensor = isthmus::from_py(object);
                PyGILState_Release(state);
                if (!tensor) continue;
                good += 1;
                mine.push_back(*tensor);
                if (mine.size() > 8) mine.erase(mine.begin());
            }
        });
    for (std::thread& thread : all) thread.join();
    Py_END_ALLOW_THREADS return PyLong_FromLong(good.load());
}

}  // namespace

PyMethodDef thread_methods[] = {
    {"import_without_gil", import_without_gil, METH_O, "from_py(x) on a thread without the GIL: (code, text)"},
    {"import_after_release", import_after_release, METH_O, "borrow_py(x) on this thread without the GIL: the code"},
    {"storm", storm, METH_VARARGS, "imports on threads of C++: how many succeeded"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
