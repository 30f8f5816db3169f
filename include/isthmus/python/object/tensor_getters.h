// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/view.h>
#include <isthmus/python/object/tensor_object.h>
#include <isthmus/python/object/value_types.h>

ISTHMUS_BEGIN

namespace detail {

inline PyObject* tuple_of(const std::int64_t* values, int count, std::int64_t factor = 1) {
    PyObject* tuple = PyTuple_New(count);
    for (int i = 0; tuple != nullptr && i < count; ++i) {
        PyObject* number = PyLong_FromLongLong(values[i] * factor);
        if (number == nullptr) {
            Py_DECREF(tuple);
            return nullptr;
        }
        PyTuple_SET_ITEM(tuple, i, number);
    }
    return tuple;
}

/// A getter from a function of the block.
template <auto F>
PyObject* getter(PyObject* self, void*) {
    Block* block = block_of(self);
    return block != nullptr ? F(block) : nullptr;
}

inline std::int64_t block_numel(const Block* block) noexcept {
    std::int64_t n = 0;
    (void)layout::numel(block->dl.shape, block->dl.ndim, n);
    return n;
}
inline std::int64_t block_nbytes(const Block* block) noexcept {
    std::int64_t n = 0;
    (void)layout::nbytes(block_numel(block), block->dl.dtype, block->flags & flag::padded, n);
    return n;
}

/// The Python object that keeps the memory, or None.
inline PyObject* block_owner(Block* block) {
    if (PyObject* tensor = torch_object_of(block)) return tensor;
    PyObject* owner = source_of(block);
    if (owner == nullptr) owner = Py_None;
    Py_INCREF(owner);
    return owner;
}

ISTHMUS_COLD inline PyObject* tensor_repr(PyObject* self) {
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
    {"size", getter<[](Block* b) { return PyLong_FromLongLong(block_numel(b)); }>, nullptr, "Number of elements.", nullptr},
    {"itemsize", getter<[](Block* b) { return PyLong_FromLongLong(DType(b->dl.dtype).itemsize()); }>, nullptr,
     "Bytes of one element, rounded up.", nullptr},
    {"nbytes", getter<[](Block* b) { return PyLong_FromLongLong(block_nbytes(b)); }>, nullptr,
     "Bytes of all elements when compact.", nullptr},
    {"owner", getter<block_owner>, nullptr, "The Python object that keeps the memory alive, or None when C++ does.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace detail

ISTHMUS_END
