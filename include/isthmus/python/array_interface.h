// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/python/byte_strides.h>
#include <isthmus/python/names.h>
#include <isthmus/python/stream.h>

ISTHMUS_BEGIN

namespace detail {

/// The dtype of a `typestr` ("<f4", "|b1"; numpy.org, "The array interface protocol").
inline bool parse_typestr(std::string_view typestr, DType& out, bool& foreign_order) noexcept {
    foreign_order = false;
    if (typestr.size() < 3 || typestr.size() > 4) return false;
    int itemsize = 0;
    for (char c : typestr.substr(2)) {
        if (c < '0' || c > '9') return false;
        itemsize = 10 * itemsize + (c - '0');
    }
    int code = -1;
    switch (typestr[1]) {
        case 'b': code = kDLBool; break;
        case 'i': code = kDLInt; break;
        case 'u': code = kDLUInt; break;
        case 'f': code = kDLFloat; break;
        case 'c': code = kDLComplex; break;
        default: return false;
    }
    if (itemsize == 0 || itemsize > 31) return false;
    if (typestr[0] == (PY_LITTLE_ENDIAN ? '>' : '<') && itemsize > 1) return foreign_order = true, false;
    if (typestr[0] != '<' && typestr[0] != '>' && typestr[0] != '|' && typestr[0] != '=') return false;
    out = DType(code, 8 * itemsize);
    return out.is_valid() && (code != kDLBool || itemsize == 1);
}

/// Reads a tuple of integers into `out`; false, with a Python exception or without, when it is none.
inline bool read_sizes(PyObject* tuple, std::int64_t* out, int& count) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > max_ndim) return false;
    count = static_cast<int>(PyTuple_GET_SIZE(tuple));
    for (int i = 0; i < count; ++i) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred() != nullptr) return false;
    }
    return true;
}

/// `__array_interface__` (NumPy's version 3) on the host, or `__cuda_array_interface__` (Numba's version 3, with its stream).
/// Neither has a way to release the memory: the object itself is what keeps it.
inline bool import_array_interface(Import& import, bool cuda) {
    const Names& names = interned();
    const std::string what = type_name(import.object) + (cuda ? ".__cuda_array_interface__" : ".__array_interface__");
    const auto bad = [&](ErrorCode code, const std::string& text) {
        PyErr_Clear();
        return import.fail(code, what + " has " + text);
    };
    import.keep_alive();
    Ref dict(PyObject_GetAttr(import.object, cuda ? names.cuda_array_interface : names.array_interface));
    if (!dict) return import.fail_with_exception(ErrorCode::producer_failed, what);
    if (!PyDict_Check(dict.get())) return import.fail(ErrorCode::producer_failed, what + " is a " + type_name(dict.get()) + "; wanted a dict");
    const auto item = [&](const char* key) {
        PyObject* value = PyDict_GetItemString(dict.get(), key);
        return value == Py_None ? nullptr : value;
    };

    DLTensor& t = import.out.dl();
    t.device = DLDevice{kDLCPU, 0};
    t.byte_offset = 0;
    t.shape = import.out.shape();
    t.strides = nullptr;
    int ndim = 0;
    PyObject* shape = item("shape");
    if (shape == nullptr || !read_sizes(shape, import.out.shape(), ndim)) return bad(ErrorCode::bad_layout, "no valid 'shape'; wanted a tuple of integers");
    t.ndim = ndim;

    PyObject* typestr = item("typestr");
    Py_ssize_t length = 0;
    const char* text = typestr != nullptr && PyUnicode_Check(typestr) ? PyUnicode_AsUTF8AndSize(typestr, &length) : nullptr;
    if (text == nullptr) return bad(ErrorCode::bad_dtype, "no valid 'typestr'; wanted a string such as '<f4'");
    DType dtype;
    bool foreign_order = false;
    if (!parse_typestr({text, static_cast<std::size_t>(length)}, dtype, foreign_order))
        return foreign_order ? bad(ErrorCode::not_values, std::string("typestr '") + text + "', which is not in this machine's byte order")
                             : bad(ErrorCode::bad_dtype, std::string("typestr '") + text + "', which has no counterpart in DLPack");
    t.dtype = dtype;
    if (item("mask") != nullptr) return bad(ErrorCode::not_values, "a mask, which would be lost; fill the masked elements first");

    PyObject* data = item("data");
    if (data == nullptr || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2)
        return bad(ErrorCode::null_data, "no valid 'data'; wanted a tuple (address, read-only)");
    t.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    const int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1));
    if (PyErr_Occurred() != nullptr || read_only < 0) return bad(ErrorCode::null_data, "no valid 'data'; wanted a tuple (address, read-only)");

    if (PyObject* strides = item("strides")) {
        std::int64_t bytes[max_ndim];
        int count = 0;
        if (!read_sizes(strides, bytes, count) || count != ndim)
            return bad(ErrorCode::bad_layout, "no valid 'strides'; wanted None or a tuple of " + std::to_string(ndim) + " integers, in bytes");
        t.strides = import.out.strides();
        if (!element_strides(reinterpret_cast<const Py_ssize_t*>(bytes), ndim, dtype.itemsize(), t.strides) &&
            !element_strides_that_matter(import, reinterpret_cast<const Py_ssize_t*>(bytes)))
            return false;
    }
    if (cuda && !place_cuda_data(import, t, item("stream"))) return false;
    const Flags flags = read_only ? flag::read_only : 0;
    if (!is_sound(t, flags)) return import.fail_unsound(t, flags);
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
