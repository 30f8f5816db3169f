// The buffer protocol: import and export, and strides in bytes as strides in elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import_request.h"  // Python.h must come before any standard header

#include "../runtime/shared_runtime.h"
#include "buffer_format.h"

ISTHMUS_BEGIN

namespace detail {

/// Divides strides in bytes by the size of an element; false if one is not a multiple of it.
inline bool element_strides(const Py_ssize_t* bytes, int ndim, std::int64_t itemsize, std::int64_t* out) noexcept {
    if (ISTHMUS_LIKELY((itemsize & (itemsize - 1)) == 0)) {
        const int shift = trailing_zeros(static_cast<std::uint64_t>(itemsize));
        std::int64_t rest = 0;
        for (int i = 0; i < ndim; ++i) {
            rest |= bytes[i] & (itemsize - 1);
            out[i] = bytes[i] >> shift;
        }
        return rest == 0;
    }
    for (int i = 0; i < ndim; ++i) {
        if (bytes[i] % itemsize != 0) return false;
        out[i] = bytes[i] / itemsize;
    }
    return true;
}

/// Describes elements whose strides are not whole numbers of them as bytes, for a copy. False if there is no dimension
/// left for that.
ISTHMUS_COLD inline bool describe_bytes(ImportRequest& request, const Py_ssize_t* bytes) {
    DLTensor& t = request.out.dl();
    if (t.ndim == max_ndim) return false;
    const DType dtype = t.dtype;
    std::int64_t *shape = request.out.shape(), *strides = request.out.strides();
    for (int i = 0; i < t.ndim; ++i) {
        shape[i] = t.shape[i];
        strides[i] = bytes[i];
    }
    shape[t.ndim] = dtype.itemsize();
    strides[t.ndim++] = 1;
    t.shape = shape;
    t.strides = strides;
    t.dtype = uint8;
    *request.for_copy = {.as_bytes = true, .dtype = dtype};
    return true;
}

/// The same, but dimensions that are never stepped along may have any stride: theirs become row-major.
ISTHMUS_NOINLINE inline bool element_strides_that_matter(ImportRequest& request, const Py_ssize_t* bytes) {
    const DLTensor& t = request.out.dl();
    const std::int64_t itemsize = DType(t.dtype).itemsize();
    std::int64_t numel = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::row_major(t.shape, t.ndim, t.strides))
        return request.fail_unsound(t, 0);
    if (numel == 0) return true;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] == 1) continue;
        if (bytes[i] % itemsize != 0 && request.for_copy != nullptr && describe_bytes(request, bytes)) return true;
        if (bytes[i] % itemsize != 0)
            return request.fail(ErrorCode::needs_copy,
                                {"the stride of dimension ", i, " is ", bytes[i], " bytes, no multiple of the ",
                                 itemsize, "-byte element; copy it first"});
        t.strides[i] = bytes[i] / itemsize;
    }
    return true;
}

ISTHMUS_COLD inline bool explain_buffer_format(ImportRequest& request, const char* format, Py_ssize_t itemsize,
                                               bool foreign_order) {
    const TextBuffer found = compose(
        {"the buffer of this ", type_name(request.object), " has format '", format, "' with itemsize ", itemsize});
    DType dtype;
    if (foreign_order && parse_buffer_format(std::string_view(format).substr(1), itemsize, dtype, foreign_order))
        return request.fail(
            ErrorCode::not_values,
            {found, ", which is not in this machine's byte order; call numpy.asarray(x).astype('", dtype, "') first"});
    if (format[0] == 'T')
        return request.fail(ErrorCode::bad_dtype,
                            {found, ": structs have no counterpart in DLPack; take one field, numpy.asarray(x)[name]"});
    return request.fail(ErrorCode::bad_dtype,
                        {found, "; expected one number per element (one of ?bBchHiIlLqQnNefdg, Zf, Zd)"});
}

/// Describes a buffer of native numbers that came without strides and is sound; false, with nothing said of it, for all
/// others. One pass over its sizes: this is what is asked of every array of JAX.
ISTHMUS_ALWAYS_INLINE bool describe_row_major(const Py_buffer& view, const BorrowedBuilder& out) noexcept {
    DType dtype;
    if (view.strides != nullptr || view.suboffsets != nullptr || view.ndim < 0 || view.ndim > max_ndim ||
        (view.ndim > 0 && view.shape == nullptr) || view.format == nullptr ||
        !parse_native_letter(view.format, view.itemsize, dtype))
        return false;
    std::int64_t *shape = out.shape(), *strides = out.strides();
    std::int64_t numel = 1, bytes = 0;
    for (int i = view.ndim - 1; i >= 0; --i) {
        shape[i] = view.shape[i];
        strides[i] = numel;
        if (shape[i] <= 0 || ISTHMUS_MULTIPLY_OVERFLOWS(numel, shape[i], numel)) return false;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(view.buf);
    if (ISTHMUS_MULTIPLY_OVERFLOWS(numel, std::int64_t{view.itemsize}, bytes) || view.buf == nullptr ||
        reaches_end(address, bytes - 1) || (address & static_cast<std::uint64_t>(dtype.alignment() - 1)) != 0)
        return false;
    out.dl() = DLTensor{view.buf, {kDLCPU, 0}, view.ndim, dtype, shape, strides, 0};
    return true;
}

/// import_held_buffer() of any other buffer.
ISTHMUS_NOINLINE inline bool import_any_held_buffer(ImportRequest& request) {
    const Py_buffer& view = request.out.buffer();
    DLTensor& t = request.out.dl();
    t.ndim = view.ndim;
    if (ISTHMUS_UNLIKELY(view.ndim < 0 || view.ndim > max_ndim || (view.ndim > 0 && view.shape == nullptr))) {
        // PEP 3118 lets a one-dimensional buffer leave its shape out.
        if (view.ndim != 1 || view.itemsize <= 0)
            return request.fail_unsound(t = DLTensor{view.buf, {kDLCPU, 0}, view.ndim, uint8, nullptr, nullptr, 0}, 0);
        request.out.shape()[0] = view.len / view.itemsize;
    } else {
        // Copied: the exporter's own may lie in the Py_buffer, which moves, or change while the buffer is held.
        for (int i = 0; i < view.ndim; ++i) request.out.shape()[i] = view.shape[i];
    }
    t.shape = request.out.shape();
    DType dtype = uint8;
    bool foreign_order = false;
    const char* format = view.format != nullptr ? view.format : "B";
    if (ISTHMUS_UNLIKELY(!parse_buffer_format(format, view.itemsize, dtype, foreign_order)))
        return explain_buffer_format(request, format, view.itemsize, foreign_order);
    t.dtype = dtype;
    t.data = view.buf;
    t.device = DLDevice{kDLCPU, 0};
    t.byte_offset = 0;
    t.strides = nullptr;
    if (ISTHMUS_UNLIKELY(view.suboffsets != nullptr))
        for (int i = 0; i < view.ndim; ++i)
            if (view.suboffsets[i] >= 0)
                return request.fail(ErrorCode::bad_layout,
                                    {"the buffer of this ", type_name(request.object),
                                     " is indirect (suboffsets), an array of pointers; copy it first"});
    const Flags flags = view.readonly ? flag::read_only : 0;
    if (view.strides == nullptr) {
        std::int64_t numel = 0;
        if (ISTHMUS_LIKELY(layout::numel(t.shape, t.ndim, numel) && is_sound_row_major(t.data, numel, dtype, false)))
            return request.accept_sound(flags);
    } else {
        t.strides = request.out.strides();
        if (ISTHMUS_UNLIKELY(!element_strides(view.strides, view.ndim, view.itemsize, t.strides)) &&
            !element_strides_that_matter(request, view.strides))
            return false;
    }
    return request.accept(flags);
}

/// The tensor of a buffer that `request.out.buffer()` holds (PEP 3118), always host memory.
inline bool import_held_buffer(ImportRequest& request) {
    const Py_buffer& view = request.out.buffer();
    request.out.hold_buffer();
    if (ISTHMUS_LIKELY(describe_row_major(view, request.out)))
        return request.accept_sound(view.readonly ? flag::read_only : 0);
    return import_any_held_buffer(request);
}

inline bool lends_buffers(PyObject* object) noexcept {
    const PyBufferProcs* procs = Py_TYPE(object)->tp_as_buffer;
    return procs != nullptr && procs->bf_getbuffer != nullptr;
}
/// With the exception that take_buffer() left. The scalars of ml_dtypes are NumPy's, and have no buffer.
ISTHMUS_COLD inline bool fail_to_lend(ImportRequest& request) {
    const TextBuffer what = compose({"the buffer of this ", type_name(request.object)});
    PyObject* raised = take_exception();  // while the classes are looked at
    const bool is_scalar = has_base_called(Py_TYPE(request.object), "numpy.generic");
    if (raised != nullptr) restore_exception(raised);
    return is_scalar ? request.fail_with_exception(ErrorCode::producer_failed, what, "numpy.asarray(x) has its value")
                     : request.fail_with_exception(ErrorCode::producer_failed, what);
}
/// Any exporter of the buffer protocol.
inline bool import_buffer(ImportRequest& request) {
    if (ISTHMUS_UNLIKELY(!take_buffer(request.object, request.out.buffer(), PyBUF_FULL_RO)))
        return fail_to_lend(request);
    return import_held_buffer(request);
}

ISTHMUS_COLD inline int refuse_buffer(ErrorCode code, Message text) {
    set_python_error(make_error(code, ErrorKind::buffer, text));
    return -1;
}

/// The buffer protocol (PEP 3118). Only the strides in bytes have to be allocated; they are freed with the view.
ISTHMUS_COLD inline int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
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
        return refuse_buffer(
            ErrorCode::bad_dtype,
            {"dtype ", dtype, " has no format in the buffer protocol; nearest is uint", 8 * dtype.itemsize()});
    const bool read_only = (block->flags & flag::read_only) != 0;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && read_only)
        return refuse_buffer(ErrorCode::read_only, "the memory is read-only; expected a writable buffer");
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
