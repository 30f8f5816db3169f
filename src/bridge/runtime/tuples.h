// Sizes and strides as Python tuples, and Python's pairs of numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/lookups.h>

ISTHMUS_BEGIN

namespace detail {

/// value * factor, which need not fit 64 bits: the stride of a dimension that is never stepped along may be any number.
inline PyObject* product_of(std::int64_t value, std::int64_t factor) {
    std::int64_t product = 0;
    if (!ISTHMUS_MULTIPLY_OVERFLOWS(value, factor, product)) return PyLong_FromLongLong(product);
    Ref a(PyLong_FromLongLong(value)), b(PyLong_FromLongLong(factor));
    return a && b ? PyNumber_Multiply(a.get(), b.get()) : nullptr;
}

/// (values[0] * factor, …), a new reference; NULL with a Python exception set.
inline PyObject* tuple_of(const std::int64_t* values, int count, std::int64_t factor = 1) {
    Ref tuple(PyTuple_New(count));
    for (int i = 0; tuple && i < count; ++i) {
        PyObject* number = product_of(values[i], factor);
        if (number == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, number);
    }
    return tuple.release();
}

/// A pair of integers, as DLPack's Python side passes versions and devices. False without a Python exception when it is none.
inline bool read_pair(PyObject* object, long& first, long& second) {
    Ref pair(PySequence_Check(object) && !PyUnicode_Check(object) ? PySequence_Fast(object, "") : nullptr);
    const bool two = pair && PySequence_Fast_GET_SIZE(pair.get()) == 2;
    if (two) {
        const Ref a = sequence_item(pair.get(), 0), b = sequence_item(pair.get(), 1);
        first = a ? PyLong_AsLong(a.get()) : -1;
        second = b ? PyLong_AsLong(b.get()) : -1;
    }
    const bool good = two && PyErr_Occurred() == nullptr;
    PyErr_Clear();
    return good;
}

}  // namespace detail

ISTHMUS_END
