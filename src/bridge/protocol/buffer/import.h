// Import by the buffer protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format.h"  // Python.h must come before any standard header
#include "../byte_strides.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_COLD inline bool explain_buffer_format(ImportRequest& request, const char* format, Py_ssize_t itemsize,
                                               bool foreign_order) {
    const std::string found =
        concat({"the buffer of this ", type_name(request.object), " has format '", format, "' with itemsize ", itemsize});
    if (foreign_order)
        return request.fail(ErrorCode::not_values,
                            {found, ", which is not in this machine's byte order; swap the bytes first"});
    return request.fail(ErrorCode::bad_dtype, {found, "; wanted one number per element (one of ?bBchHiIlLqQnNefdg, Zf, Zd)"});
}

/// The tensor of a buffer that `request.out.buffer()` holds (PEP 3118), always host memory.
inline bool import_held_buffer(ImportRequest& request) {
    Py_buffer& view = request.out.buffer();
    request.out.hold_buffer();

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
                return request.fail(ErrorCode::bad_layout, {"the buffer of this ", type_name(request.object),
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

/// Any exporter of the buffer protocol.
inline bool import_buffer(ImportRequest& request) {
    if (ISTHMUS_UNLIKELY(!take_buffer(request.object, request.out.buffer(), PyBUF_FULL_RO)))
        return request.fail_with_exception(ErrorCode::producer_failed, {"the buffer of this ", type_name(request.object)});
    return import_held_buffer(request);
}

}  // namespace detail

ISTHMUS_END
