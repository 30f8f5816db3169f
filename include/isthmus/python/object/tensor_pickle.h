// Pickling of isthmus.Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/tensor_object.h>  // Python.h must come before any standard header

#include <algorithm>
#include <cstdlib>

#include <isthmus/core/copy.h>
#include <isthmus/python/runtime/tuples.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether the elements fill one piece of memory, each byte of it once, in whatever order of the dimensions and in either
/// direction.
inline bool is_dense(const DLTensor& t) noexcept {
    if (layout::is_contiguous(t.shape, t.strides, t.ndim)) return true;
    int order[max_ndim], count = 0;
    const auto step = [&](int i) { return std::abs(t.strides[i]); };
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] == 1) continue;
        int at = count++;
        for (; at > 0 && step(order[at - 1]) > step(i); --at) order[at] = order[at - 1];
        order[at] = i;
    }
    std::int64_t wanted = 1;
    for (int k = 0; k < count; ++k) {
        if (step(order[k]) != wanted) return false;
        wanted *= t.shape[order[k]];
    }
    return true;
}

/// The bytes of a dense tensor of the host, lowest address first: in its own memory from protocol 5 on, where a pickler with a
/// buffer callback moves them without a copy (PEP 574), else copied. A new reference, or NULL with a Python exception set.
inline PyObject* pickled_bytes(const Tensor& tensor, bool read_only, long protocol) {
    std::int64_t first = 0, last = 0;
    const auto shape = tensor.shape(), strides = tensor.strides();
    if (tensor.numel() > 0 && !tensor.is_contiguous())
        (void)layout::extent(shape.data(), strides.data(), tensor.ndim(), tensor.itemsize(), first, last);
    auto* lowest = static_cast<char*>(tensor.data()) + first;
    const std::int64_t nbytes = tensor.nbytes();
    if (protocol >= 5) {
        Tensor flat = tensor.as_strided(lowest, {nbytes}, {1}, uint8);
        Ref shown(new_tensor_object(flat.release_block()));
        return shown ? PyPickleBuffer_FromObject(shown.get()) : nullptr;
    }
    // A bytearray comes back writable, as the memory was.
    const auto size = static_cast<Py_ssize_t>(nbytes);
    return read_only ? PyBytes_FromStringAndSize(lowest, size) : PyByteArray_FromStringAndSize(lowest, size);
}

/// Pickled by value: bytes, dtype, shape, strides and flags. A dense tensor comes back with the strides that it has; of any
/// other the elements are copied in row-major order.
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
    if (!is_dense(t)) {
        Result<Tensor> copy = copy_of(t, block->flags & flag::dlpack_known);
        if (!copy) {
            set_python_error(copy.error());
            return nullptr;
        }
        whole = std::move(*copy);
    }
    const bool read_only = (block->flags & flag::read_only) != 0;
    Ref bytes(pickled_bytes(whole, read_only, protocol));
    Ref module(bytes ? PyImport_ImportModule("isthmus") : nullptr);
    Ref rebuild(module ? PyObject_GetAttrString(module.get(), "_rebuild") : nullptr);
    Ref shape(rebuild ? tuple_of(t.shape, t.ndim) : nullptr);
    std::int64_t plain[max_ndim];
    const bool row_major =
        layout::row_major(t.shape, t.ndim, plain) && std::equal(plain, plain + t.ndim, whole.strides().data());
    Ref strides(row_major ? Py_NewRef(Py_None) : tuple_of(whole.strides().data(), whole.ndim()));
    if (!shape || !strides) return nullptr;
    return Py_BuildValue("O(OsOOOO)", rebuild.get(), bytes.get(), DType(t.dtype).name().c_str(), shape.get(),
                         (block->flags & flag::padded) ? Py_True : Py_False, strides.get(), read_only ? Py_True : Py_False);
}

}  // namespace detail

ISTHMUS_END
