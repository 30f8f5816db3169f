// Shared by the sources of isthmus._isthmus: each file adds its functions to the module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>
#include <isthmus/shared/access.h>

#include "../bridge/dispatch/classify.h"
#include "../bridge/object/tensor_type.h"
#include "../bridge/runtime/errors.h"

namespace package {

using isthmus::Device;
using isthmus::DType;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::ErrorKind;
using isthmus::Ref;
using isthmus::Tensor;
using isthmus::detail::guarded;

extern PyMethodDef import_methods[], blob_methods[], inspect_methods[], shared_methods[], load_methods[];

/// A function with keywords, as PyMethodDef wants it.
template <class F>
PyCFunction with_keywords(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// As METH_FASTCALL calls it; only the number of arguments is checked, since only the package calls these functions.
template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t), Py_ssize_t wanted>
PyObject* counted(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    if (count == wanted) return function(self, arguments, count);
    PyErr_Format(PyExc_TypeError, "expected %zd arguments (%zd given)", wanted, count);
    return nullptr;
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

/// A sequence of integers as sizes or strides. False with a Python exception set that names the argument.
bool read_sizes(PyObject* object, const char* argument, std::int64_t (&out)[isthmus::max_ndim], int& count);
/// The shape of a new tensor: read_sizes(), or one integer for one dimension.
bool read_shape(PyObject* object, std::int64_t (&out)[isthmus::max_ndim], int& count);

/// A dtype or device said in Python: one of ours, its name, DLPack's tuple. False with a Python exception set.
bool read_dtype(PyObject* object, const char* argument, DType& out);
bool read_device(PyObject* object, const char* argument, Device& out);

/// "read_only", "copy_on_write" or "shared". False with a Python exception set.
bool read_access(PyObject* object, isthmus::shared::Access& access);

/// set_python_error(), except that out of memory is also a MemoryError, and a call that the system refused an OSError.
void raise_system(const Error& error);

}  // namespace package
