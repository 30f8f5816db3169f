// Sizes and strides as Python tuples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>

ISTHMUS_BEGIN

namespace detail {

/// (values[0] * factor, …), a new reference; NULL with a Python exception set.
inline PyObject* tuple_of(const std::int64_t* values, int count, std::int64_t factor = 1) {
    Ref tuple(PyTuple_New(count));
    for (int i = 0; tuple && i < count; ++i) {
        PyObject* number = PyLong_FromLongLong(values[i] * factor);
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
        first = PyLong_AsLong(PySequence_Fast_GET_ITEM(pair.get(), 0));
        second = PyLong_AsLong(PySequence_Fast_GET_ITEM(pair.get(), 1));
    }
    const bool good = two && PyErr_Occurred() == nullptr;
    PyErr_Clear();
    return good;
}

}  // namespace detail

ISTHMUS_END
