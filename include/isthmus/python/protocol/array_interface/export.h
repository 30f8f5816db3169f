// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/framework/numpy/export.h>
#include <isthmus/python/protocol/dlpack_method/export.h>
#include <isthmus/python/object/tensor_getters.h>

ISTHMUS_BEGIN

namespace detail {

/// "<f4": the typestr of a dtype (numpy.org, "The array interface protocol"); empty where it has none.
ISTHMUS_COLD inline std::string typestr_of(DType dtype) {
    char letter = 0;
    switch (dtype.code) {
        case kDLInt:
            letter = 'i';
            break;
        case kDLUInt:
            letter = 'u';
            break;
        case kDLFloat:
            letter = 'f';
            break;
        case kDLComplex:
            letter = 'c';
            break;
        case kDLBool:
            letter = 'b';
            break;
        default:
            return {};
    }
    if (dtype.lanes() != 1 || dtype.is_subbyte() || dtype == complex32) return {};
    const char kind[] = {dtype.itemsize() == 1 ? '|' : (PY_LITTLE_ENDIAN ? '<' : '>'), letter, '\0'};
    return concat({kind, dtype.itemsize()});
}

/// `__array_interface__` and `__cuda_array_interface__`, both version 3. An AttributeError, so that `hasattr` is honest, where
/// the memory or the dtype is not of its kind.
ISTHMUS_COLD inline PyObject* array_interface(Block* block, bool cuda) {
    const DLTensor& t = block->dl;
    const Device device = t.device;
    const char* attribute = cuda ? "__cuda_array_interface__" : "__array_interface__";
    const bool here = cuda ? device.type == kDLCUDA || device.type == kDLCUDAManaged : device.is_host();
    const std::string typestr = typestr_of(t.dtype);
    if (!here || typestr.empty()) {
        PyErr_Format(
            PyExc_AttributeError, "isthmus.Tensor has no attribute '%s': %s", attribute,
            here ? (concat({"dtype ", DType(t.dtype), " has no typestr"})).c_str() : (concat({"it is on ", device})).c_str());
        return nullptr;
    }
    Ref shape(tuple_of(t.shape, t.ndim));
    Ref strides(layout::is_contiguous(t.shape, t.strides, t.ndim) ? Py_NewRef(Py_None)
                                                                  : tuple_of(t.strides, t.ndim, DType(t.dtype).itemsize()));
    Ref address(PyLong_FromVoidPtr(t.data));
    if (!shape || !strides || !address) return nullptr;
    PyObject* dict =
        Py_BuildValue("{s:O,s:s,s:(OO),s:O,s:i}", "shape", shape.get(), "typestr", typestr.c_str(), "data", address.get(),
                      (block->flags & flag::read_only) ? Py_True : Py_False, "strides", strides.get(), "version", 3);
    if (dict != nullptr && cuda && PyDict_SetItemString(dict, "stream", Py_None) != 0) {
        Py_DECREF(dict);
        return nullptr;
    }
    return dict;
}
inline PyObject* host_interface(Block* block) { return array_interface(block, false); }
inline PyObject* cuda_interface(Block* block) { return array_interface(block, true); }

/// `__array__(dtype=None, copy=None)` (NumPy 2's semantics, on 1.x too): the same memory, unless the dtype or the caller wants
/// a copy.
inline PyObject* tensor_array(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO:__array__", const_cast<char**>(names), &dtype, &copy))
        return nullptr;
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    Result<PyObject*> made = block_to_numpy(block);
    if (!made) return set_python_error(made.error()), nullptr;
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
