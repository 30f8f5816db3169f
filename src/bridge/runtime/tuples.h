// Sizes and strides as Python tuples, and Python's pairs of numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/lookups.h>

ISTHMUS_BEGIN

namespace detail {

/// value * factor, which need not fit 64 bits: the stride of a dimension that is never stepped along may be any number.
inline PyObject* product_of(std::int64_t value, std::int64_t factor) {
    std::int64_t product = 0;
    if (!multiply_overflows(value, factor, product)) return PyLong_FromLongLong(product);
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

/// The outcome of read_integers().
enum class Integers : std::uint8_t { ok, not_integers, too_many, too_large };

/// Reads a sequence of integers, or of objects with `__index__`; a bool is not one. Leaves no exception.
template <class Integer>
Integers read_integers(PyObject* sequence, Integer* out, int room, int& count) {
    const bool whole = PySequence_Check(sequence) && !PyUnicode_Check(sequence) && !PyBytes_Check(sequence);
    const Ref items(whole ? PySequence_Fast(sequence, "") : nullptr);
    const Py_ssize_t size = items ? PySequence_Fast_GET_SIZE(items.get()) : 0;
    Integers outcome = !items ? Integers::not_integers : size > room ? Integers::too_many : Integers::ok;
    for (Py_ssize_t i = 0; outcome == Integers::ok && i < size; ++i) {
        const Ref item = sequence_item(items.get(), i);
        const Ref number(!item || PyBool_Check(item.get()) ? nullptr : PyNumber_Index(item.get()));
        int overflow = 0;
        const long long value = number ? PyLong_AsLongLongAndOverflow(number.get(), &overflow) : 0;
        out[i] = static_cast<Integer>(value);
        if (!number)
            outcome = Integers::not_integers;
        else if (overflow != 0 || out[i] != value)
            outcome = Integers::too_large;
    }
    PyErr_Clear();
    count = static_cast<int>(size);
    return outcome;
}
/// A pair of integers, as DLPack's Python side passes versions and devices.
inline bool read_pair(PyObject* object, long& first, long& second) {
    long pair[2] = {};
    int count = 0;
    const bool good = read_integers(object, pair, 2, count) == Integers::ok && count == 2;
    first = pair[0];
    second = pair[1];
    return good;
}

}  // namespace detail

ISTHMUS_END
