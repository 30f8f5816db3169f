// Chains of tensors in which each owns the one before, made and released in C++.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>

#include <string>
#include <thread>

#include "../../python/support/module.h"

namespace {

using isthmus::Tensor;

bool released = false;

Tensor root() {
    released = false;
    static float memory[4] = {1, 2, 3, 4};
    return Tensor::wrap(memory, {4}, {}, isthmus::float32, isthmus::Device::cpu(), [] { released = true; });
}

/// The next of the chain, which owns the last.
Tensor next(const std::string& kind, Tensor last, long i) {
    if (kind == "as_strided") return last.as_strided(last.data(), {4}, {1}, isthmus::float32);
    if (kind == "wrap") {
        void* data = last.data();
        return Tensor::wrap(data, {4}, {1}, isthmus::float32, isthmus::Device::cpu(), std::move(last));
    }
    if (kind == "callable") {
        void* data = last.data();
        return Tensor::wrap(data, {4}, {1}, isthmus::float32, isthmus::Device::cpu(), [last = std::move(last)] {});
    }
    if (kind == "dlpack") return Tensor::from_dlpack(last.to_dlpack()).value();
    if (kind == "legacy dlpack") return Tensor::from_dlpack(last.to_dlpack_legacy()).value();
    if (kind == "blob") {
        const isthmus::Blob blob = isthmus::to_blob(last);
        return isthmus::from_blob(blob, std::move(last)).value();
    }
    // In turn: a view, an export and an import, a read-only alias of one that can be written.
    return next(i % 3 == 0 ? "as_strided" : i % 3 == 1 ? "dlpack" : "wrap", std::move(last), i);
}

/// chain(kind, count, drop): made and dropped, here or on a thread of C++ with a small stack; whether the root went
/// last.
PyObject* chain(PyObject*, PyObject* args) {
    const char *kind = nullptr, *where = nullptr;
    long count = 0;
    if (!PyArg_ParseTuple(args, "sls", &kind, &count, &where)) return nullptr;
    Tensor last = root();
    for (long i = 0; i < count; ++i) last = next(kind, std::move(last), i);
    const bool right = static_cast<const float*>(last.data())[3] == 4 && !released;
    if (std::string(where) == "thread")
        std::thread([last = std::move(last)]() mutable { last = {}; }).join();
    else
        last = {};
    return PyBool_FromLong(right && released);
}

/// blocks(kind, count): how many tensors are alive in the end of a chain whose links nobody holds.
PyObject* blocks(PyObject*, PyObject* args) {
    const char* kind = nullptr;
    long count = 0;
    if (!PyArg_ParseTuple(args, "sl", &kind, &count)) return nullptr;
    isthmus::live_tracking(true);
    Tensor last = root();
    for (long i = 0; i < count; ++i) last = next(kind, std::move(last), i);
    const std::size_t alive = isthmus::live().size();
    last = {};
    isthmus::live_tracking(false);
    return PyLong_FromSize_t(alive);
}

/// wrapped(x): a tensor over the same memory that owns a handle on x: what a slice of C++ is.
PyObject* wrapped(PyObject*, PyObject* x) {
    auto taken = isthmus::from_py(x);
    if (!taken) return isthmus::set_python_error(taken.error()), nullptr;
    return *isthmus::to_py(next("wrap", *std::move(taken), 0));
}
PyObject* strided(PyObject*, PyObject* x) {
    auto taken = isthmus::from_py(x);
    if (!taken) return isthmus::set_python_error(taken.error()), nullptr;
    return *isthmus::to_py(next("as_strided", *std::move(taken), 0));
}

PyMethodDef methods[] = {{"chain", chain, METH_VARARGS, nullptr},
                         {"blocks", blocks, METH_VARARGS, nullptr},
                         {"wrapped", wrapped, METH_O, nullptr},
                         {"strided", strided, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "chains", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_chains() { return create_module(definition); }
