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

}  // namespace detail

ISTHMUS_END
