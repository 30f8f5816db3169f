// NumPy's structs and type numbers, and the dtypes they stand for, both ways.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

/// The first fields of NumPy's array and dtype objects, the same from NumPy 1.20 to 2.x (numpy/ndarraytypes.h:
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

inline bool has_native_order(const NumpyDescr* descr) noexcept {
    return descr->byteorder != (PY_LITTLE_ENDIAN ? '>' : '<');
}

namespace numpy_flag {
inline constexpr int c_contiguous = 0x0001, f_contiguous = 0x0002, aligned = 0x0100, writeable = 0x0400;
inline constexpr int warn_on_write = static_cast<int>(0x80000000);
}  // namespace numpy_flag

/// By type number, the builtin ones (numpy/ndarraytypes.h: NPY_TYPES); code 255 if DLPack has no counterpart.
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

/// NumPy's type numbers by DLPack's code and width.
struct NumpyNumbers {
    static constexpr unsigned slot_count = 64;
    std::int8_t values[slot_count]{};
    static constexpr unsigned slot(DType dtype) noexcept {
        return dtype.code * 8u + static_cast<unsigned>(std::countr_zero(dtype.bit_count | 0x100u)) - 3u;
    }
    constexpr NumpyNumbers() {
        for (auto& value : values) value = -1;
        // Of equal dtypes the first wins: int64 is NPY_LONG if long has 64 bits, as in NumPy itself.
        for (int i = numpy_builtin_types - 1; i >= 0; --i)
            if (numpy_dtypes[i].bits != 0) values[slot(numpy_dtypes[i])] = static_cast<std::int8_t>(i);
    }
};
inline constexpr NumpyNumbers numpy_numbers{};

/// NumPy's type number of a builtin dtype, or -1.
ISTHMUS_ALWAYS_INLINE int numpy_type_number(DType dtype) noexcept {
    const unsigned slot = NumpyNumbers::slot(dtype);
    const int number = slot < NumpyNumbers::slot_count ? numpy_numbers.values[slot] : -1;
    return number >= 0 && DType(numpy_dtypes[number]) == dtype ? number : -1;
}

}  // namespace detail

ISTHMUS_END
