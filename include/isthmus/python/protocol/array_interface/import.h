// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/python/protocol/byte_strides.h>
#include <isthmus/python/runtime/interned.h>
#include <isthmus/python/protocol/cuda_driver.h>

ISTHMUS_BEGIN

namespace detail {

/// The dtype of a `typestr` ("<f4", "|b1"; numpy.org, "The array interface protocol").
ISTHMUS_COLD inline bool parse_typestr(std::string_view typestr, DType& out, bool& foreign_order) noexcept {
    foreign_order = false;
    if (typestr.size() < 3 || typestr.size() > 4) return false;
    int itemsize = 0;
    for (char c : typestr.substr(2)) {
        if (c < '0' || c > '9') return false;
        itemsize = 10 * itemsize + (c - '0');
    }
    int code = -1;
    switch (typestr[1]) {
        case 'b':
            code = kDLBool;
            break;
        case 'i':
            code = kDLInt;
            break;
        case 'u':
            code = kDLUInt;
            break;
        case 'f':
            code = kDLFloat;
            break;
        case 'c':
            code = kDLComplex;
            break;
        default:
            return false;
    }
    if (itemsize == 0 || itemsize > 31) return false;
    if (typestr[0] == (PY_LITTLE_ENDIAN ? '>' : '<') && itemsize > 1) return foreign_order = true, false;
    if (typestr[0] != '<' && typestr[0] != '>' && typestr[0] != '|' && typestr[0] != '=') return false;
    out = DType(code, 8 * itemsize);
    return out.is_valid() && (code != kDLBool || itemsize == 1);
}

/// Reads a tuple of integers into `out`; false, with a Python exception or without, when it is none.
ISTHMUS_COLD inline bool read_sizes(PyObject* tuple, std::int64_t* out, int& count) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > max_ndim) return false;
    count = static_cast<int>(PyTuple_GET_SIZE(tuple));
    for (int i = 0; i < count; ++i) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred() != nullptr) return false;
    }
    return true;
}

/// The buffer that an interface may give in place of an address; held by the import once it is open.
struct InterfaceBuffer {
    char* start = nullptr;
    Py_ssize_t size = 0, offset = 0;
    bool read_only = false;

    bool open(Import& import, PyObject* exporter) {
        Py_buffer& view = import.out.buffer();
        if (PyObject_GetBuffer(exporter, &view, PyBUF_SIMPLE) != 0) return false;
        import.out.hold_buffer();
        start = static_cast<char*>(view.buf);
        size = view.len;
        read_only = view.readonly != 0;
        return true;
    }
    bool skip(PyObject* bytes) {
        offset = PyLong_AsSsize_t(bytes);
        return PyErr_Occurred() == nullptr && offset >= 0 && offset <= size;
    }
    /// Whether all elements of a sound tensor, which starts at the offset, lie in the buffer.
    bool holds(const DLTensor& t) const noexcept {
        std::int64_t numel = 0, first = 0, last = 0;
        if (!layout::numel(t.shape, t.ndim, numel)) return false;
        if (numel == 0) return true;
        const std::int64_t itemsize = DType(t.dtype).itemsize();
        if (t.strides == nullptr)
            last = numel * itemsize - 1;
        else if (!layout::extent(t.shape, t.strides, t.ndim, itemsize, first, last))
            return false;
        return first >= -offset && last < size - offset;
    }
};

/// `__array_interface__` (NumPy's version 3) on the host, or `__cuda_array_interface__` (Numba's version 3, with its stream).
/// Neither has a way to release the memory: the object itself is what keeps it.
ISTHMUS_COLD inline bool import_array_interface(Import& import, bool cuda) {
    const Names& names = interned();
    const std::string what = type_name(import.object) + (cuda ? ".__cuda_array_interface__" : ".__array_interface__");
    const auto bad = [&](ErrorCode code, const std::string& text) {
        if (PyErr_Occurred() != nullptr && !PyErr_ExceptionMatches(PyExc_Exception))
            return import.fail_with_exception(ErrorCode::producer_failed, what);
        PyErr_Clear();
        return import.fail(code, concat({what, " has ", text}));
    };
    import.keep_alive();
    Ref dict(PyObject_GetAttr(import.object, cuda ? names.cuda_array_interface : names.array_interface));
    if (!dict) return import.fail_with_exception(ErrorCode::producer_failed, what);
    if (!PyDict_Check(dict.get()))
        return import.fail(ErrorCode::producer_failed, concat({what, " is a ", type_name(dict.get()), "; wanted a dict"}));
    // References of our own: a number among the values may be an object whose __index__ empties the dict.
    const auto item = [&](const char* key) {
        PyObject* value = PyDict_GetItemString(dict.get(), key);
        return value == Py_None ? Ref() : Ref::borrow(value);
    };

    DLTensor& t = import.out.dl();
    t.device = DLDevice{kDLCPU, 0};
    t.byte_offset = 0;
    t.shape = import.out.shape();
    t.strides = nullptr;
    int ndim = 0;
    Ref shape = item("shape");
    if (!shape || !read_sizes(shape.get(), import.out.shape(), ndim))
        return bad(ErrorCode::bad_layout, "no valid 'shape'; wanted a tuple of integers");
    t.ndim = ndim;

    Ref typestr = item("typestr");
    Py_ssize_t length = 0;
    const char* text = typestr && PyUnicode_Check(typestr.get()) ? PyUnicode_AsUTF8AndSize(typestr.get(), &length) : nullptr;
    if (text == nullptr) return bad(ErrorCode::bad_dtype, "no valid 'typestr'; wanted a string such as '<f4'");
    DType dtype;
    bool foreign_order = false;
    if (!parse_typestr({text, static_cast<std::size_t>(length)}, dtype, foreign_order))
        return foreign_order
                   ? bad(ErrorCode::not_values, concat({"typestr '", text, "', which is not in this machine's byte order"}))
                   : bad(ErrorCode::bad_dtype, concat({"typestr '", text, "', which has no counterpart in DLPack"}));
    t.dtype = dtype;
    if (item("mask")) return bad(ErrorCode::not_values, "a mask, which would be lost; fill the masked elements first");

    bool read_only = false;
    InterfaceBuffer buffer;
    Ref data = item("data");
    if (data && PyTuple_Check(data.get())) {
        if (PyTuple_GET_SIZE(data.get()) != 2)
            return bad(ErrorCode::null_data, "no valid 'data'; wanted a tuple (address, read-only)");
        t.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data.get(), 0));
        const int flag = PyErr_Occurred() == nullptr ? PyObject_IsTrue(PyTuple_GET_ITEM(data.get(), 1)) : -1;
        if (flag < 0) return bad(ErrorCode::null_data, "no valid 'data'; wanted a tuple (address, read-only)");
        read_only = flag != 0;
    } else {
        PyObject* exporter = data ? data.get() : import.object;
        if (cuda || !PyObject_CheckBuffer(exporter))
            return bad(ErrorCode::null_data,
                       cuda ? "no valid 'data'; wanted a tuple (address, read-only)"
                            : "no valid 'data'; wanted a tuple (address, read-only) or an object with a buffer");
        if (!buffer.open(import, exporter))
            return import.fail_with_exception(ErrorCode::producer_failed, concat({"the buffer of ", what}));
        if (Ref offset = item("offset"); offset && !buffer.skip(offset.get()))
            return bad(ErrorCode::bad_layout,
                       concat({"no valid 'offset'; wanted a number of bytes within the ", buffer.size, " of the buffer"}));
        t.data = buffer.start + buffer.offset;
        read_only = buffer.read_only;
    }

    if (Ref strides = item("strides")) {
        std::int64_t bytes[max_ndim];
        int count = 0;
        if (!read_sizes(strides.get(), bytes, count) || count != ndim)
            return bad(ErrorCode::bad_layout,
                       concat({"no valid 'strides'; wanted None or a tuple of ", ndim, " integers, in bytes"}));
        t.strides = import.out.strides();
        if (!element_strides(reinterpret_cast<const Py_ssize_t*>(bytes), ndim, dtype.itemsize(), t.strides) &&
            !element_strides_that_matter(import, reinterpret_cast<const Py_ssize_t*>(bytes)))
            return false;
    }
    if (cuda && !place_cuda_data(import, t, item("stream").get())) return false;
    const Flags flags = read_only ? flag::read_only : 0;
    if (!is_sound(t, flags)) return import.fail_unsound(t, flags);
    if (buffer.start != nullptr) {
        if (!buffer.holds(t))
            return bad(ErrorCode::overflow, concat({"elements beyond the ", buffer.size, " bytes of its buffer"}));
        return import.accept_sound(flags);
    }
    // The dict may own the memory (a memoryview among its values, say) and may have been made for this one question; so may the
    // object that it was asked of.
    if (import.owning || Py_REFCNT(dict.get()) == 1 || Py_REFCNT(import.object) == 1) {
        PyObject* both = PyTuple_Pack(2, import.object, dict.get());
        if (both == nullptr) return import.fail_with_exception(ErrorCode::out_of_memory, what);
        import.out.hold(both, [](void* o) { drop_object(static_cast<PyObject*>(o)); });
    }
    return import.accept_sound(flags);
}

}  // namespace detail

ISTHMUS_END
