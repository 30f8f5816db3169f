// Pickling of isthmus.Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/tensor_object.h"  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include "../runtime/tuples.h"
#include "../runtime/raise.h"

ISTHMUS_BEGIN

namespace detail {

/// The elements as they lie where they lie dense, in whatever order of dimensions and direction; else a row-major copy of them.
inline Result<Tensor> pickled_bytes(const Tensor& tensor, bool& dense) {
    const DLTensor& t = tensor.descriptor();
    std::int64_t low = 0, high = 0;
    const bool packed = tensor.dtype().is_subbyte() && !tensor.is_padded();
    dense = tensor.numel() == 0 || packed ||
            (layout::is_dense(t.shape, t.strides, t.ndim) &&
             layout::extent(t.shape, t.strides, t.ndim, tensor.itemsize(), low, high));
    if (!dense) return copy_of(t, tensor.flags() & flag::dlpack_known);
    return tensor.as_strided(static_cast<char*>(tensor.data()) + low, {tensor.nbytes()}, {1}, uint8);
}

/// Pickled by value: the bytes, dtype, shape, strides, and whether they are to be read only. From protocol 5 on the bytes are a
/// PickleBuffer, so that a pickler with a buffer callback moves them without a copy (PEP 574).
inline PyObject* tensor_reduce(PyObject* self, PyObject* argument) {
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
    const bool plain = !dense || (layout::row_major(t.shape, t.ndim, row_major) &&
                                  std::memcmp(row_major, t.strides, static_cast<std::size_t>(t.ndim) * sizeof *row_major) == 0);
    Ref strides(!shape ? nullptr : plain ? Py_NewRef(Py_None) : tuple_of(t.strides, t.ndim));
    if (!strides) return nullptr;
    return Py_BuildValue("O(OsOOOO)", rebuild.get(), bytes.get(), DType(t.dtype).name().c_str(), shape.get(),
                         (block->flags & flag::padded) ? Py_True : Py_False, strides.get(),
                         (block->flags & flag::read_only) ? Py_True : Py_False);
}

}  // namespace detail

ISTHMUS_END
