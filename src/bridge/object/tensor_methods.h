// Getters and methods of isthmus.Tensor: to(), the array protocols of NumPy, pickle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/core/view/view.h>
#include "../framework/facts.h"
#include "../framework/numpy/export.h"
#include "../runtime/errors.h"
#include "../runtime/lookups.h"
#include "../runtime/shared_runtime.h"
#include "value_types.h"

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

ISTHMUS_COLD inline PyObject* tensor_repr(PyObject* self) {
    Block* block = reinterpret_cast<TensorObject*>(self)->block;
    if (block == nullptr) return PyUnicode_FromString("<isthmus.Tensor, cleared>");
    TextBuffer text = compose({"isthmus.Tensor(", described(block->dl), " at ", hex(block->dl.data)});
    if (!layout::is_contiguous(block->dl.shape, block->dl.strides, block->dl.ndim))
        Message({", strides ", sizes_text(block->dl.strides, block->dl.ndim)}).append_to(text);
    if (block->flags & flag::read_only) text += ", read-only";
    if (block->flags & flag::padded) text += ", padded";
    const Ref owner(block_owner(block));
    if (owner.get() != Py_None) Message({", owner ", type_name(owner.get())}).append_to(text);
    return unicode_of(text += ')');
}

inline PyGetSetDef tensor_getset[] = {
    {"data_ptr", getter<[](Block* b) { return PyLong_FromVoidPtr(b->dl.data); }>, nullptr,
     "Address of the first element, byte offset included.", nullptr},
    {"shape", getter<[](Block* b) { return tuple_of(b->dl.shape, b->dl.ndim); }>, nullptr, "Sizes, one per dimension.",
     nullptr},
    {"strides", getter<[](Block* b) { return tuple_of(b->dl.strides, b->dl.ndim); }>, nullptr,
     "Steps in elements, one per dimension.", nullptr},
    {"byte_strides",
     getter<[](Block* b) { return tuple_of(b->dl.strides, b->dl.ndim, DType(b->dl.dtype).itemsize()); }>, nullptr,
     "Steps in bytes, one per dimension.", nullptr},
    {"dtype", getter<[](Block* b) { return new_value_object(shared_runtime()->dtype, DType(b->dl.dtype)); }>, nullptr,
     "The type of one element (isthmus.DType).", nullptr},
    {"__numpy_dtype__", getter<[](Block* b) { return numpy_dtype_or_error(DType(b->dl.dtype)); }>, nullptr,
     "NumPy's dtype, for what asks for that of an array; an AttributeError if it has none.", nullptr},
    {"device", getter<[](Block* b) { return new_value_object(shared_runtime()->device, Device(b->dl.device)); }>,
     nullptr, "Where the memory is (isthmus.Device).", nullptr},
    {"read_only", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::read_only) != 0); }>, nullptr,
     "The memory must not be written.", nullptr},
    {"is_copied", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::copied) != 0); }>, nullptr,
     "The memory is a copy that was made for this tensor.", nullptr},
    {"is_padded", getter<[](Block* b) { return PyBool_FromLong((b->flags & flag::padded) != 0); }>, nullptr,
     "Elements of fewer than 8 bits occupy a whole byte each.", nullptr},
    {"is_contiguous",
     getter<[](Block* b) { return PyBool_FromLong(layout::is_contiguous(b->dl.shape, b->dl.strides, b->dl.ndim)); }>,
     nullptr, "Row-major and compact.", nullptr},
    {"ndim", getter<[](Block* b) { return PyLong_FromLong(b->dl.ndim); }>, nullptr, "Number of dimensions.", nullptr},
    {"size", getter<[](Block* b) { return PyLong_FromLongLong(layout::numel(b->dl)); }>, nullptr, "Number of elements.",
     nullptr},
    {"itemsize", getter<[](Block* b) { return PyLong_FromLongLong(DType(b->dl.dtype).itemsize()); }>, nullptr,
     "Bytes of one element, rounded up.", nullptr},
    {"nbytes", getter<[](Block* b) { return PyLong_FromLongLong(layout::nbytes(b->dl, b->flags & flag::padded)); }>,
     nullptr, "Bytes of all elements when compact.", nullptr},
    {"owner", getter<block_owner>, nullptr, "The Python object that keeps the memory alive, or None when C++ does.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

ISTHMUS_COLD inline PyObject* tensor_to(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"", "allow_read_only_loss", "allow_copy", nullptr};
    PyObject* wanted = nullptr;
    int read_only_loss = 0, copy = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$pp:to", const_cast<char**>(names), &wanted,
                                     &read_only_loss, &copy))
        return nullptr;
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    const Ref named(PyModule_Check(wanted) ? PyModule_GetNameObject(wanted) : Py_NewRef(wanted));
    if (!named) return nullptr;
    if (!PyUnicode_Check(named.get())) {
        PyErr_Format(PyExc_TypeError, "to(): expected the name of a framework, or its module, got %.200s",
                     Py_TYPE(wanted)->tp_name);
        return nullptr;
    }
    std::string_view name = utf8_of(named.get());
    if (name.data() == nullptr) return nullptr;
    if (PyModule_Check(wanted)) name = name.substr(0, name.find('.'));  // jax.numpy
    Framework framework = Framework::none;
    if (!parse_framework(name, framework)) {
        TextBuffer known;
        for (const auto& facts : framework_facts) (known += known.view().empty() ? "" : ", ") += facts.name;
        return raise(ErrorCode::bad_argument, ErrorKind::value,
                     {"argument 'framework': found '", name, "'; expected one of ", known});
    }
    retain(block);
    Result<PyObject*> result = to_py(Tensor::steal(block), framework, ExportOptions{read_only_loss != 0, copy != 0});
    if (result) return *result;
    set_python_error(result.error());
    return nullptr;
}

inline PyObject* tensor_as_read_only(PyObject* self, PyObject*) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    if (block->flags & flag::read_only) return Py_NewRef(self);
    Block* alias = alias_wrapped_block(block, block->dl, (block->flags & flag::dlpack_known) | flag::read_only);
    return alias != nullptr ? new_tensor_object(alias) : PyErr_NoMemory();
}

/// `__array__(dtype=None, copy=None)` (NumPy 2's semantics, on 1.x too): the same memory, unless the dtype or the
/// caller wants a copy.
ISTHMUS_COLD inline PyObject* tensor_array(PyObject* self, PyObject* arguments, PyObject* keywords) {
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
                                  {"the tensor's own dtype ", DType(block->dl.dtype), " with copy=False"});
        if (other) return PyObject_CallMethod(array.get(), "astype", "O", wanted.get());
    }
    return copy == Py_True ? PyObject_CallMethod(array.get(), "copy", nullptr) : array.release();
}

/// `ravel()` and `ctypes`, which zarr and safetensors ask of what they write: as of a NumPy array over the same memory.
ISTHMUS_COLD inline PyObject* tensor_ravel(PyObject* self, PyObject*) {
    const Ref none(PyTuple_New(0)), array(none ? tensor_array(self, none.get(), nullptr) : nullptr);
    return array ? PyObject_CallMethod(array.get(), "ravel", nullptr) : nullptr;
}
ISTHMUS_COLD inline PyObject* block_ctypes(Block* block) {
    Result<PyObject*> made = export_to_numpy(block);
    if (made) return PyObject_GetAttrString(Ref(*made).get(), "ctypes");
    set_python_error(made.error());
    if (PyErr_ExceptionMatches(PyExc_BufferError))
        PyErr_Format(PyExc_AttributeError, "no ctypes of this tensor: %s", made.error().what());
    return nullptr;
}

/// The elements in place if they are dense, in any order of dimensions and direction; else a row-major copy of them.
ISTHMUS_COLD inline Result<Tensor> pickled_bytes(const Tensor& tensor, bool& dense) {
    const DLTensor& t = tensor.descriptor();
    std::int64_t low = 0, high = 0;
    const bool packed = tensor.dtype().is_subbyte() && !tensor.is_padded();
    dense = tensor.numel() == 0 || packed ||
            (layout::is_dense(t.shape, t.strides, t.ndim) &&
             layout::extent(t.shape, t.strides, t.ndim, tensor.itemsize(), low, high));
    if (!dense) return copy_of(t, tensor.flags() & flag::dlpack_known);
    return tensor.as_strided(static_cast<char*>(tensor.data()) + low, {tensor.nbytes()}, {1}, uint8);
}

/// Pickled by value: the bytes, dtype, shape, strides, and whether they are to be read only. From protocol 5 on the
/// bytes are a PickleBuffer, so that a pickler with a buffer callback moves them without a copy (PEP 574).
ISTHMUS_COLD inline PyObject* reduced(PyObject* self, PyObject* argument) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    const long protocol = PyLong_AsLong(argument);
    if (protocol == -1 && PyErr_Occurred() != nullptr) return nullptr;
    const DLTensor& t = block->dl;
    if (!Device(t.device).is_host())
        return raise(ErrorCode::bad_device, ErrorKind::buffer,
                     {"the tensor is on ", Device(t.device), "; copy it to the cpu before pickling"});
    retain(block);
    bool dense = false;
    Result<Tensor> taken = pickled_bytes(Tensor::steal(block), dense);
    if (!taken) {
        set_python_error(taken.error());
        return nullptr;
    }
    const Tensor& whole = *taken;
    const Py_ssize_t nbytes = static_cast<Py_ssize_t>(whole.nbytes());
    Ref bytes;
    if (protocol >= 5) {
        Tensor flat = whole.as_strided(whole.data(), {std::int64_t{nbytes}}, {1}, uint8);
        Ref shown(new_tensor_object(flat.release_block()));
        bytes = Ref(shown ? PyPickleBuffer_FromObject(shown.get()) : nullptr);
    } else {
        // A bytearray comes back writable, as the memory was.
        const auto* data = static_cast<const char*>(whole.data());
        bytes = Ref((block->flags & flag::read_only) ? PyBytes_FromStringAndSize(data, nbytes)
                                                     : PyByteArray_FromStringAndSize(data, nbytes));
    }
    Ref module(bytes ? PyImport_ImportModule("isthmus") : nullptr);
    Ref rebuild(module ? PyObject_GetAttrString(module.get(), "_rebuild") : nullptr);
    Ref shape(rebuild ? tuple_of(t.shape, t.ndim) : nullptr);
    // The strides of sizes 1 and 0 come back too, though no element is reached by them.
    std::int64_t row_major[max_ndim];
    const bool plain =
        !dense || (layout::row_major(t.shape, t.ndim, row_major) &&
                   std::memcmp(row_major, t.strides, static_cast<std::size_t>(t.ndim) * sizeof *row_major) == 0);
    Ref strides(!shape ? nullptr : plain ? Py_NewRef(Py_None) : tuple_of(t.strides, t.ndim));
    Ref name(strides ? unicode_of({DType(t.dtype)}) : nullptr);
    if (!name) return nullptr;
    return Py_BuildValue("O(OOOOOO)", rebuild.get(), bytes.get(), name.get(), shape.get(),
                         (block->flags & flag::padded) ? Py_True : Py_False, strides.get(),
                         (block->flags & flag::read_only) ? Py_True : Py_False);
}
ISTHMUS_COLD inline PyObject* tensor_reduce(PyObject* self, PyObject* argument) {
    return guarded([&] { return reduced(self, argument); });
}

}  // namespace detail

ISTHMUS_END
