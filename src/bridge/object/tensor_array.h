// isthmus.Tensor.__array__: for np.asarray() and its like.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/tensor_object.h"  // Python.h must come before any standard header

#include "../framework/numpy/export.h"
#include "../runtime/raise.h"

ISTHMUS_BEGIN

namespace detail {

/// `__array__(dtype=None, copy=None)` (NumPy 2's semantics, on 1.x too): the same memory, unless the dtype or the caller wants
/// a copy.
inline PyObject* tensor_array(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO:__array__", const_cast<char**>(names), &dtype, &copy))
        return nullptr;
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    Result<PyObject*> made = export_to_numpy(block);
    if (!made) {
        set_python_error(made.error());
        return nullptr;
    }
    Ref array(*made);
    bool other = false;
    if (dtype != Py_None) {
        Ref numpy(PyImport_ImportModule("numpy"));
        Ref wanted(numpy ? PyObject_CallMethod(numpy.get(), "dtype", "O", dtype) : nullptr);
        Ref found(wanted ? PyObject_GetAttrString(array.get(), "dtype") : nullptr);
        const int equal = found ? PyObject_RichCompareBool(wanted.get(), found.get(), Py_EQ) : -1;
        if (equal < 0) return nullptr;
        other = equal == 0;
        if (other && copy == Py_False)
            return raise_argument("dtype", dtype,
                                  (concat({"the tensor's own dtype ", DType(block->dl.dtype), " with copy=False"})).c_str());
        if (other) return PyObject_CallMethod(array.get(), "astype", "O", wanted.get());
    }
    return copy == Py_True ? PyObject_CallMethod(array.get(), "copy", nullptr) : array.release();
}

}  // namespace detail

ISTHMUS_END
