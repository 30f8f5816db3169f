// What the sources of isthmus._isthmus share: each file adds its functions to the module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>

namespace package {

using isthmus::Device;
using isthmus::DType;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::ErrorKind;
using isthmus::Ref;
using isthmus::Tensor;

extern PyMethodDef import_methods[], blob_methods[], pickle_methods[], measure_methods[], live_methods[], shared_methods[],
    operator_methods[];

/// A function with keywords, as PyMethodDef wants it.
template <class F>
PyCFunction with_keywords(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// An isthmus.Tensor, or the exception of what failed.
inline PyObject* to_object(const Tensor& tensor) {
    const isthmus::Result<PyObject*> object = isthmus::to_py(tensor);
    if (object) return *object;
    isthmus::set_python_error(object.error());
    return nullptr;
}
inline PyObject* to_object(const isthmus::Result<Tensor>& tensor) {
    if (tensor) return to_object(*tensor);
    isthmus::set_python_error(tensor.error());
    return nullptr;
}

/// Runs what may throw Error (or std::bad_alloc) where Python calls.
template <class F>
PyObject* guarded(F&& f) {
    try {
        return f();
    } catch (const Error& error) {
        isthmus::set_python_error(error);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    return nullptr;
}

/// A sequence of integers as sizes or strides. False with a Python exception set that names the argument.
bool read_sizes(PyObject* object, const char* argument, std::int64_t (&out)[isthmus::max_ndim], int& count);

/// A dtype or device said in Python: one of ours, its name, DLPack's tuple. False with a Python exception set.
bool read_dtype(PyObject* object, const char* argument, DType& out);
bool read_device(PyObject* object, const char* argument, Device& out);

}  // namespace package
