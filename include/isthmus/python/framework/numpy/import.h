// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include <isthmus/python/protocol/byte_strides.h>

ISTHMUS_BEGIN

namespace detail {

/// The front of NumPy's array and dtype objects, the same from NumPy 1.20 to 2.x (numpy/ndarraytypes.h:
/// PyArrayObject_fields, PyArray_Descr; what was `char flags` in 1.x is padding in 2.x).
struct NumpyDescr {
    PyObject_HEAD PyTypeObject* typeobj;
    char kind, type, byteorder, padding;
    int type_num;
};
struct NumpyArray {
    PyObject_HEAD char* data;
    int nd;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;  // in bytes
    PyObject* base;
    NumpyDescr* descr;
    int flags;
};

inline bool has_native_order(const NumpyDescr* descr) noexcept { return descr->byteorder != (PY_LITTLE_ENDIAN ? '>' : '<'); }

namespace numpy_flag {
inline constexpr int c_contiguous = 0x0001, f_contiguous = 0x0002, aligned = 0x0100, writeable = 0x0400;
}

/// By type number, the builtin ones (numpy/ndarraytypes.h: NPY_TYPES); code 255 where DLPack has no counterpart.
inline constexpr DLDataType numpy_dtypes[] = {
    {kDLBool, 8, 1},
    {kDLInt, 8, 1},
    {kDLUInt, 8, 1},
    {kDLInt, 16, 1},
    {kDLUInt, 16, 1},
    {kDLInt, 32, 1},
    {kDLUInt, 32, 1},
    {kDLInt, 8 * sizeof(long), 1},
    {kDLUInt, 8 * sizeof(long), 1},
    {kDLInt, 64, 1},
    {kDLUInt, 64, 1},
    {kDLFloat, 32, 1},
    {kDLFloat, 64, 1},
    {kDLFloat, 8 * sizeof(long double), 1},
    {kDLComplex, 64, 1},
    {kDLComplex, 128, 1},
    {255, 0, 0},  // clongdouble: DLPack's 8 bits cannot count its 256
    {255, 0, 0},  // object
    {255, 0, 0},  // bytes
    {255, 0, 0},  // str
    {255, 0, 0},  // void, structured
    {255, 0, 0},  // datetime64
    {255, 0, 0},  // timedelta64
    {kDLFloat, 16, 1},
};
inline constexpr int numpy_builtin_types = sizeof(numpy_dtypes) / sizeof(numpy_dtypes[0]);

/// log2 of the bytes of an element, by type number: all are powers of two.
struct NumpyShifts {
    static constexpr std::uint8_t none = 255;
    std::uint8_t values[numpy_builtin_types]{};
    constexpr NumpyShifts() {
        for (int i = 0; i < numpy_builtin_types; ++i) {
            for (int bytes = numpy_dtypes[i].bits / 8; bytes > 1; bytes /= 2) ++values[i];
            if (numpy_dtypes[i].bits == 0) values[i] = none;
        }
    }
    /// Whether the type is one of NumPy's own, and has a counterpart.
    constexpr bool has(unsigned number) const noexcept {
        return number < static_cast<unsigned>(numpy_builtin_types) && values[number] != none;
    }
    constexpr int operator[](unsigned number) const noexcept { return values[number]; }
};
inline constexpr NumpyShifts numpy_shifts{};

/// ml_dtypes' types, by the name of their scalar type.
inline bool find_ml_dtype(const NumpyDescr* descr, DLDataType& out) noexcept {
    if (descr->typeobj == nullptr) return false;
    const char* name = descr->typeobj->tp_name;
    if (const char* dot = std::strrchr(name, '.')) name = dot + 1;
    DType found;
    if (!DType::parse(name, found)) return false;
    out = found;
    return true;
}

ISTHMUS_COLD inline bool explain_numpy_dtype(Import& import, const NumpyDescr* descr) {
    Ref text(PyObject_Str(reinterpret_cast<PyObject*>(const_cast<NumpyDescr*>(descr))));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    const std::string name = utf8 != nullptr ? utf8 : "unknown";
    PyErr_Clear();
    const std::string found = concat({"dtype ", name});
    if (!has_native_order(descr))
        return import.fail(
            ErrorCode::not_values,
            concat({found, " is not in this machine's byte order; call x.astype(x.dtype.newbyteorder('=')) first"}));
    switch (descr->kind) {
        case 'O':
            return import.fail(
                ErrorCode::bad_dtype,
                concat({found, ": Python objects have no counterpart in DLPack; convert to a numeric dtype first"}));
        case 'M':
        case 'm':
            return import.fail(ErrorCode::bad_dtype,
                               concat({found, " has no counterpart in DLPack; call .view('int64') for the counts"}));
        case 'S':
        case 'U':
        case 'T':
            return import.fail(ErrorCode::bad_dtype,
                               concat({found, ": strings have no counterpart in DLPack; call .view('uint8') for the bytes"}));
        case 'V':
            return import.fail(
                ErrorCode::bad_dtype,
                concat({found, ": structured and void types have no counterpart in DLPack; take one field, x['name']"}));
        default:
            return import.fail(ErrorCode::bad_dtype, concat({found, " has no counterpart in DLPack"}));
    }
}

/// The dtype of an array whose type is not one of NumPy's own, or has no counterpart.
ISTHMUS_COLD inline bool unusual_numpy_dtype(const NumpyDescr* descr, DLDataType& out, Flags& flags) noexcept {
    if (!has_native_order(descr) || static_cast<unsigned>(descr->type_num) < static_cast<unsigned>(numpy_builtin_types))
        return false;
    if (!find_ml_dtype(descr, out)) return false;
    if (DType(out).is_subbyte()) flags |= flag::padded;  // ml_dtypes keeps one element a byte
    return true;
}

/// Writes the descriptor of an array whose items have 2^shift bytes. False when a stride is not a number of items.
ISTHMUS_ALWAYS_INLINE bool describe_numpy(const NumpyArray* array, DLDataType dtype, int shift, detail_import out) noexcept {
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    const int ndim = array->nd;
    const Py_ssize_t* bytes = array->strides;
    std::int64_t* strides = out.strides();
    Py_ssize_t rest = 0;
    for (int i = 0; i < ndim; ++i) {
        rest |= bytes[i];
        strides[i] = bytes[i] >> shift;
    }
    DLTensor& t = out.dl();
    t.data = array->data;
    t.device = DLDevice{kDLCPU, 0};
    t.ndim = ndim;
    t.dtype = dtype;
    t.shape = reinterpret_cast<std::int64_t*>(array->dimensions);
    t.strides = strides;
    t.byte_offset = 0;
    return (rest & ((Py_ssize_t{1} << shift) - 1)) == 0;
}

/// A numpy.ndarray (or a subclass that is no mask) by its struct, without a call into NumPy.
inline bool import_numpy(Import& import) {
    const auto* array = reinterpret_cast<const NumpyArray*>(import.object);
    const NumpyDescr* descr = array->descr;
    Flags flags = (array->flags & numpy_flag::writeable) ? 0 : flag::read_only;
    const auto number = static_cast<unsigned>(descr->type_num);
    DLDataType dtype{};
    if (ISTHMUS_LIKELY(numpy_shifts.has(number) && has_native_order(descr)))
        dtype = numpy_dtypes[number];
    else if (!unusual_numpy_dtype(descr, dtype, flags))
        return explain_numpy_dtype(import, descr);
    const int shift = __builtin_ctz(static_cast<unsigned>(DType(dtype).itemsize()));
    if (!describe_numpy(array, dtype, shift, import.out) && !element_strides_that_matter(import, array->strides)) return false;
    if (import.owning) import.out.hold_object(import.object);
    return import.accept(flags);
}

/// The same for most arrays: of NumPy's own types, and such that an aligned and contiguous array is as NumPy made it, while
/// strides of any other may have been set by hand. False, and nothing held, for those that import_numpy() must look at.
ISTHMUS_ALWAYS_INLINE bool import_plain_numpy(PyObject* object, bool require_writable, detail_import out,
                                              bool owning) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    const int state = array->flags;
    const auto number = static_cast<unsigned>(array->descr->type_num);
    if (ISTHMUS_UNLIKELY(!numpy_shifts.has(number) || !has_native_order(array->descr) || !(state & numpy_flag::aligned) ||
                         !(state & (numpy_flag::c_contiguous | numpy_flag::f_contiguous)) || array->data == nullptr ||
                         (require_writable && !(state & numpy_flag::writeable)) ||
                         !describe_numpy(array, numpy_dtypes[number], numpy_shifts[number], out)))
        return false;
    if (owning) out.hold_object(object);
    out.flags() = (state & numpy_flag::writeable) ? 0 : flag::read_only;
    return true;
}

}  // namespace detail

ISTHMUS_END
