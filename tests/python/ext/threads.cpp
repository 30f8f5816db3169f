// SPDX-License-Identifier: Apache-2.0
// Imports from threads of C++.
#include "ext.h"

#include <isthmus/tree.h>

#include <atomic>
#include <optional>
#include <string_view>
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

/// The code of a call's error, "" if there was none. A reference that it made is left for the caller to drop.
template <class X>
std::string code_of(isthmus::Result<X> result, std::vector<PyObject*>& made) {
    if (!result) return isthmus::error_code_name(result.error().code());
    if constexpr (std::is_same_v<X, PyObject*>) made.push_back(*result);
    return "";
}
std::string code_of_tree(PyObject* object) {
    const isthmus::Result<isthmus::Tree> tree = isthmus::Tree::from_py(object);
    return tree ? "" : isthmus::error_code_name(tree.error().code());
}
PyObject* null_tree(PyObject*, PyObject*) { return PyUnicode_FromString(code_of_tree(nullptr).c_str()); }

std::string call_by_name(std::string_view name, PyObject* object, isthmus::Framework framework,
                         const isthmus::Tensor& tensor, std::vector<PyObject*>& made) {
    using isthmus::Result;
    const auto caught = [&](auto&& call) -> std::string {
        try {
            (void)call();
            return "";
        } catch (const isthmus::Error& error) {
            return isthmus::error_code_name(error.code());
        }
    };
    if (name == "from_py") return code_of(isthmus::from_py(object), made);
    if (name == "from_py, copied") return code_of(isthmus::from_py(object, {.copy = isthmus::Copy::always}), made);
    if (name == "borrow_py") return code_of(isthmus::borrow_py(object), made);
    if (name == "to_py") return code_of(isthmus::to_py(tensor, framework), made);
    if (name == "to_py, given") return code_of(isthmus::to_py(isthmus::Tensor(tensor), framework), made);
    if (name == "to_py_like") return code_of(isthmus::to_py_like(tensor, object), made);
    if (name == "announce_write") return code_of(isthmus::announce_write(object, "x"), made);
    if (name == "empty_like") return caught([&] { return isthmus::empty_like(object, {2}, isthmus::float32); });
    if (name == "empty_like, on a device")
        return caught([&] { return isthmus::empty_like(object, {2}, isthmus::float32, isthmus::Device::cpu()); });
    if (name == "empty_like, refused")
        return caught([&] { return isthmus::empty_like(object, {-2}, isthmus::float32); });
    if (name == "Tree::from_py") return code_of_tree(object);
    if (name == "PyOwner") return caught([&] { return isthmus::PyOwner(object).object(); });
    if (name == "set_python_error")
        return isthmus::set_python_error(isthmus::Error(isthmus::ErrorCode::bad_dtype, "it")), "";
    return "no such call";
}
/// without_gil(name, x, framework, on_thread): the call by its name, after this thread gave the GIL away or on another:
/// the code of its error, or the exception that it set on this thread.
PyObject* without_gil(PyObject*, PyObject* args) {
    const char *name = nullptr, *framework_name = nullptr;
    PyObject* object = nullptr;
    int on_thread = 0;
    isthmus::Framework framework{};
    if (!PyArg_ParseTuple(args, "sOsp", &name, &object, &framework_name, &on_thread)) return nullptr;
    if (!isthmus::parse_framework(framework_name, framework)) return PyErr_Format(PyExc_ValueError, "no framework");
    std::string code;
    std::vector<PyObject*> made;
    const isthmus::Tensor tensor = isthmus::Tensor::own(std::vector<float>(4), {4});
    std::optional<isthmus::Result<isthmus::Tree>> tree;
    if (std::string_view(name) == "Tree::to_py") tree = isthmus::Tree::from_py(object);
    const auto call = [&] {
        if (tree && *tree)
            code = code_of((*tree)->to_py({&tensor, 1}), made);
        else
            code = call_by_name(name, object, framework, tensor, made);
    };
    Py_BEGIN_ALLOW_THREADS if (on_thread != 0) std::thread(call).join();
    else call();
    Py_END_ALLOW_THREADS for (PyObject* one : made) Py_DECREF(one);
    return PyErr_Occurred() != nullptr ? nullptr : PyUnicode_FromString(code.c_str());
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
    {"null_tree", null_tree, METH_NOARGS, "Tree::from_py(NULL): the code of its error"},
    {"without_gil", without_gil, METH_VARARGS, "a public function, called without the GIL: the code of its error"},
    {"storm", storm, METH_VARARGS, "imports on threads of C++: how many succeeded"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
