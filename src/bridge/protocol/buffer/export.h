// isthmus.Tensor's buffer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/tensor_object.h"  // Python.h must come before any standard header

#include "format.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_COLD inline int refuse_buffer(ErrorCode code, Message text) {
    set_python_error(Error(code, ErrorKind::buffer, concat({text})));
    return -1;
}

/// The buffer protocol (PEP 3118). Only the strides in bytes have to be allocated; they are freed with the view.
inline int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
    Block* block = block_of(self);
    view->obj = nullptr;
    if (block == nullptr) return -1;
    const DLTensor& t = block->dl;
    const DType dtype = t.dtype;
    const char* format = buffer_format(dtype);
    if (!Device(t.device).is_host())
        return refuse_buffer(ErrorCode::bad_device,
                             {"the tensor is on ", Device(t.device), "; the buffer protocol is for host memory"});
    if (format == nullptr)
        return refuse_buffer(ErrorCode::bad_dtype,
                             {"dtype ", dtype, " has no format in the buffer protocol; nearest is uint", 8 * dtype.itemsize()});
    const bool read_only = (block->flags & flag::read_only) != 0;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && read_only)
        return refuse_buffer(ErrorCode::read_only, "the memory is read-only; wanted a writable buffer");
    const bool c_order = layout::is_contiguous(t.shape, t.strides, t.ndim),
               f_order = layout::is_f_contiguous(t.shape, t.strides, t.ndim);
    const auto wants = [flags](int what) { return (flags & what) == what; };
    if ((wants(PyBUF_C_CONTIGUOUS) && !c_order) || (wants(PyBUF_F_CONTIGUOUS) && !f_order) ||
        (wants(PyBUF_ANY_CONTIGUOUS) && !c_order && !f_order) || (!wants(PyBUF_STRIDES) && !c_order))
        return refuse_buffer(ErrorCode::bad_layout,
                             {"strides ", sizes_text(t.strides, t.ndim), " of shape ", sizes_text(t.shape, t.ndim),
                              " are not contiguous as the buffer was asked for"});
    const Py_ssize_t itemsize = static_cast<Py_ssize_t>(dtype.itemsize());
    view->internal = nullptr;
    view->strides = nullptr;
    if (wants(PyBUF_STRIDES) && t.ndim > 0) {
        auto* strides = static_cast<Py_ssize_t*>(PyMem_Malloc(static_cast<std::size_t>(t.ndim) * sizeof(Py_ssize_t)));
        if (strides == nullptr) {
            PyErr_NoMemory();
            return -1;
        }
        for (int i = 0; i < t.ndim; ++i) strides[i] = layout::byte_stride(t, i);
        view->internal = view->strides = strides;
    }
    view->buf = t.data;
    view->len = static_cast<Py_ssize_t>(layout::nbytes(t, block->flags & flag::padded));
    view->itemsize = itemsize;
    view->readonly = read_only;
    view->ndim = wants(PyBUF_ND) ? t.ndim : 1;
    view->format = wants(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    view->shape = wants(PyBUF_ND) && t.ndim > 0 ? reinterpret_cast<Py_ssize_t*>(t.shape) : nullptr;
    view->suboffsets = nullptr;
    note_consumer(block, "buffer");
    Py_INCREF(self);
    view->obj = self;
    return 0;
}

inline void tensor_release_buffer(PyObject*, Py_buffer* view) { PyMem_Free(view->internal); }

}  // namespace detail

ISTHMUS_END
