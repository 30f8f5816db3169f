// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/python/protocol/byte_strides.h>

ISTHMUS_BEGIN

namespace detail {

/// The dtype of a PEP 3118 format string of one element (docs.python.org, module struct; `e`, `Zf` and their like as NumPy
/// writes them). False for structures, repeats, strings, objects, and another byte order; `foreign_order` tells the last.
inline bool parse_buffer_format(std::string_view format, Py_ssize_t itemsize, DType& out, bool& foreign_order) noexcept {
    foreign_order = false;
    bool foreign = false;
    if (!format.empty()) {
        const char order = format.front();
        if (order == '@' || order == '=' || order == '<' || order == '>' || order == '!' || order == '^' || order == '|') {
            foreign = PY_LITTLE_ENDIAN ? order == '>' || order == '!' : order == '<';
            format.remove_prefix(1);
        }
    }
    int code = -1;
    const bool complex = format.size() == 2 && format.front() == 'Z';
    if (complex) format.remove_prefix(1);
    if (format.size() != 1) return false;
    switch (format.front()) {
        case '?':
            code = kDLBool;
            break;
        case 'b':
        case 'h':
        case 'i':
        case 'l':
        case 'q':
        case 'n':
            code = kDLInt;
            break;
        case 'B':
        case 'H':
        case 'I':
        case 'L':
        case 'Q':
        case 'N':
            code = kDLUInt;
            break;
        case 'e':
        case 'f':
        case 'd':
        case 'g':
            code = kDLFloat;
            break;
        default:
            return false;
    }
    if (complex && (code != kDLFloat || format.front() == 'e')) return false;
    // The letter says what kind of number; its width is the exporter's itemsize, which a native and a standard 'l' write
    // differently.
    const int least = format.front() == 'h' || format.front() == 'H' || format.front() == 'e' ? 2
                      : format.front() == 'i' || format.front() == 'I' || format.front() == 'l' || format.front() == 'L' ||
                              format.front() == 'f'
                          ? 4
                      : format.front() == 'q' || format.front() == 'Q' || format.front() == 'd' || format.front() == 'n' ||
                              format.front() == 'N'
                          ? 8
                      : format.front() == 'g' ? static_cast<int>(sizeof(long double))
                                              : 1;
    const bool is_long = format.front() == 'l' || format.front() == 'L';
    const Py_ssize_t width = complex ? itemsize / 2 : itemsize;
    if (complex && itemsize % 2 != 0) return false;
    if (width != least && !(is_long && width == static_cast<Py_ssize_t>(sizeof(long)))) return false;
    const Py_ssize_t bits = 8 * itemsize;
    if (bits > 255) return false;
    if (foreign && width > 1) {
        foreign_order = true;
        return false;
    }
    out = DType(complex ? kDLComplex : code, static_cast<int>(bits));
    return true;
}

ISTHMUS_COLD inline bool explain_buffer_format(Import& import, const char* format, Py_ssize_t itemsize, bool foreign_order) {
    const std::string found =
        concat({"the buffer of this ", type_name(import.object), " has format '", format, "' with itemsize ", itemsize});
    if (foreign_order)
        return import.fail(ErrorCode::not_values,
                           concat({found, ", which is not in this machine's byte order; swap the bytes first"}));
    return import.fail(ErrorCode::bad_dtype,
                       concat({found, "; wanted one number per element (one of ?bBhHiIlLqQnNefdg, Zf, Zd)"}));
}

/// The tensor of a buffer that `import.out.buffer()` holds (PEP 3118), always host memory.
inline bool import_held_buffer(Import& import) {
    Py_buffer& view = import.out.buffer();
    import.out.hold_buffer();

    DLTensor& t = import.out.dl();
    t.ndim = view.ndim;
    if (ISTHMUS_UNLIKELY(view.ndim < 0 || view.ndim > max_ndim || (view.ndim > 0 && view.shape == nullptr))) {
        // PEP 3118 lets a one-dimensional buffer leave its shape out.
        if (view.ndim != 1 || view.itemsize <= 0)
            return import.fail_unsound(t = DLTensor{view.buf, {kDLCPU, 0}, view.ndim, uint8, nullptr, nullptr, 0}, 0);
        import.out.shape()[0] = view.len / view.itemsize;
        t.shape = import.out.shape();
    } else {
        t.shape = reinterpret_cast<std::int64_t*>(view.shape);
    }
    DType dtype = uint8;
    bool foreign_order = false;
    const char* format = view.format != nullptr ? view.format : "B";
    if (ISTHMUS_UNLIKELY(!parse_buffer_format(format, view.itemsize, dtype, foreign_order)))
        return explain_buffer_format(import, format, view.itemsize, foreign_order);
    t.dtype = dtype;
    t.data = view.buf;
    t.device = DLDevice{kDLCPU, 0};
    t.byte_offset = 0;
    t.strides = nullptr;
    if (ISTHMUS_UNLIKELY(view.suboffsets != nullptr))
        for (int i = 0; i < view.ndim; ++i)
            if (view.suboffsets[i] >= 0)
                return import.fail(ErrorCode::bad_layout,
                                   concat({"the buffer of this ", type_name(import.object),
                                           " is indirect (suboffsets), an array of pointers; copy it first"}));
    if (view.strides != nullptr) {
        t.strides = import.out.strides();
        if (ISTHMUS_UNLIKELY(!element_strides(view.strides, view.ndim, view.itemsize, t.strides)) &&
            !element_strides_that_matter(import, view.strides))
            return false;
    }
    return import.accept(view.readonly ? flag::read_only : 0);
}

/// Any exporter of the buffer protocol.
inline bool import_buffer(Import& import) {
    if (ISTHMUS_UNLIKELY(PyObject_GetBuffer(import.object, &import.out.buffer(), PyBUF_FULL_RO) != 0))
        return import.fail_with_exception(ErrorCode::producer_failed,
                                          concat({"the buffer of this ", type_name(import.object)}));
    return import_held_buffer(import);
}

}  // namespace detail

ISTHMUS_END
