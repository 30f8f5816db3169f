// Pickling of isthmus.Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/tensor_object.h>  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/python/runtime/tuples.h>

ISTHMUS_BEGIN

namespace detail {

/// Pickled by value: bytes, dtype and shape, in row-major order. From protocol 5 on the bytes are a PickleBuffer, so that
/// a pickler with a buffer callback moves them without a copy (PEP 574).
inline PyObject* tensor_reduce(PyObject* self, PyObject* argument) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    const long protocol = PyLong_AsLong(argument);
    if (protocol == -1 && PyErr_Occurred() != nullptr) return nullptr;
    const DLTensor& t = block->dl;
    if (!Device(t.device).is_host())
        return raise(ErrorCode::bad_device, ErrorKind::buffer,
                     concat({"the tensor is on ", Device(t.device), "; copy it to the cpu before pickling"}));
    retain(block);
    Tensor whole = Tensor::steal(block);
    if (!layout::is_contiguous(t.shape, t.strides, t.ndim)) {
        Result<Tensor> copy = copy_of(t, block->flags & flag::dlpack_known);
        if (!copy) {
            set_python_error(copy.error());
            return nullptr;
        }
        whole = std::move(*copy);
    }
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
    if (!shape) return nullptr;
    return Py_BuildValue("O(OsOO)", rebuild.get(), bytes.get(), DType(t.dtype).name().c_str(), shape.get(),
                         (block->flags & flag::padded) ? Py_True : Py_False);
}

}  // namespace detail

ISTHMUS_END
