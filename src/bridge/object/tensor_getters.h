// The attributes and the repr of isthmus.Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "value_types.h"  // Python.h must come before any standard header

#include <isthmus/core/view/view.h>
#include "../runtime/tensor_object.h"
#include "../runtime/tuples.h"

ISTHMUS_BEGIN

namespace detail {

/// A getter from a function of the block.
template <auto get>
PyObject* getter(PyObject* self, void*) {
    Block* block = block_of(self);
    return block != nullptr ? get(block) : nullptr;
}

/// The Python object that keeps the memory, or None.
inline PyObject* block_owner(Block* block) {
    if (PyObject* owner = python_source_of(block)) return Py_NewRef(owner);
    PyObject* array = array_of(root_of(block));
    return array != nullptr ? array : Py_NewRef(Py_None);
}

inline PyObject* tensor_repr(PyObject* self) {
    Block* block = reinterpret_cast<TensorObject*>(self)->block;
    if (block == nullptr) return PyUnicode_FromString("<isthmus.Tensor, cleared>");
    std::string text = concat({"isthmus.Tensor(", describe_tensor(block->dl), " at ", hex(block->dl.data)});
    if (!layout::is_contiguous(block->dl.shape, block->dl.strides, block->dl.ndim))
        text += concat({", strides ", sizes_text(block->dl.strides, block->dl.ndim)});
    if (block->flags & flag::read_only) text += ", read-only";
    if (block->flags & flag::padded) text += ", padded";
    Ref owner(block_owner(block));
    if (owner && owner.get() != Py_None) text += concat({", owner ", type_name(owner.get())});
    PyErr_Clear();
    return PyUnicode_FromString((concat({text, ")"})).c_str());
}

inline PyGetSetDef tensor_getset[] = {
    {"data_ptr", getter<[](Block* b) { return PyLong_FromVoidPtr(b->dl.data); }>, nullptr,
     "Address of the first element, byte offset included.", nullptr},
    {"shape", getter<[](Block* b) { return tuple_of(b->dl.shape, b->dl.ndim); }>, nullptr, "Sizes, one per dimension.",
     nullptr},
    {"strides", getter<[](Block* b) { return tuple_of(b->dl.strides, b->dl.ndim); }>, nullptr,
     "Steps in elements, one per dimension.", nullptr},
    {"byte_strides", getter<[](Block* b) { return tuple_of(b->dl.strides, b->dl.ndim, DType(b->dl.dtype).itemsize()); }>,
     nullptr, "Steps in bytes, one per dimension.", nullptr},
    {"dtype", getter<[](Block* b) { return new_value_object(shared_runtime()->dtype, DType(b->dl.dtype)); }>, nullptr,
     "What one element is (isthmus.DType).", nullptr},
    {"device", getter<[](Block* b) { return new_value_object(shared_runtime()->device, Device(b->dl.device)); }>, nullptr,
     "Where the memory is (isthmus.Device).", nullptr},
    {"read_only", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::read_only) != 0); }>, nullptr,
     "The memory must not be written.", nullptr},
    {"is_copied", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::copied) != 0); }>, nullptr,
     "The memory is a copy that was made for this tensor.", nullptr},
    {"is_padded", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::padded) != 0); }>, nullptr,
     "Elements of fewer than 8 bits have whole bytes of their own.", nullptr},
    {"is_contiguous",
     getter<[](Block* b) { return PyBool_FromLong(layout::is_contiguous(b->dl.shape, b->dl.strides, b->dl.ndim)); }>, nullptr,
     "Row-major and compact.", nullptr},
    {"ndim", getter<[](Block* b) { return PyLong_FromLong(b->dl.ndim); }>, nullptr, "Number of dimensions.", nullptr},
    {"size", getter<[](Block* b) { return PyLong_FromLongLong(layout::numel(b->dl)); }>, nullptr, "Number of elements.",
     nullptr},
    {"itemsize", getter<[](Block* b) { return PyLong_FromLongLong(DType(b->dl.dtype).itemsize()); }>, nullptr,
     "Bytes of one element, rounded up.", nullptr},
    {"nbytes", getter<[](Block* b) { return PyLong_FromLongLong(layout::nbytes(b->dl, b->flags & flag::padded)); }>, nullptr,
     "Bytes of all elements when compact.", nullptr},
    {"owner", getter<block_owner>, nullptr, "The Python object that keeps the memory alive, or None when C++ does.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace detail

ISTHMUS_END
