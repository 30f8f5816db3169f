// Dtypes and devices as arguments and results: for binders, the bare API and the package.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/value_arguments.h>

#include "object/tensor_type.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

PyTypeObject* value_type(const DType&) noexcept {
    const SharedRuntime* shared = shared_types();
    return shared != nullptr ? shared->dtype : nullptr;
}
PyTypeObject* value_type(const Device&) noexcept {
    const SharedRuntime* shared = shared_types();
    return shared != nullptr ? shared->device : nullptr;
}

template <class Value>
ISTHMUS_COLD Loaded try_to_read(PyObject* object, Value& value, bool last) noexcept {
    if (!last && (PyUnicode_Check(object) || PyTuple_Check(object))) return Loaded::no;
    PyTypeObject* type = value_type(value);
    if (type != nullptr && value_from_python(object, type, value)) return Loaded::yes;
    return PyErr_Occurred() != nullptr ? Loaded::raised : Loaded::no;
}

template <class Value>
ISTHMUS_COLD Loaded read_or_raise(PyObject* object, Value& value, const char* function, const char* argument) noexcept {
    if (const Loaded read = try_to_read(object, value, true); read != Loaded::no) return read;
    const bool right_type = PyUnicode_Check(object) || PyTuple_Check(object);
    (void)raise_found(of_call(function, argument), object, wanted_value(object, value),
                      right_type ? ErrorKind::value : ErrorKind::type);
    return Loaded::raised;
}

template <class Value>
PyObject* make_value(Value value) noexcept {
    PyTypeObject* type = value_type(value);
    return type != nullptr ? new_value_object(type, value) : nullptr;
}

}  // namespace

Loaded try_value(PyObject* object, DType& value, bool last) noexcept { return try_to_read(object, value, last); }
Loaded try_value(PyObject* object, Device& value, bool last) noexcept { return try_to_read(object, value, last); }
Loaded load_value(PyObject* object, DType& value, const char* function, const char* argument) noexcept {
    return read_or_raise(object, value, function, argument);
}
Loaded load_value(PyObject* object, Device& value, const char* function, const char* argument) noexcept {
    return read_or_raise(object, value, function, argument);
}
PyObject* value_to_py(DType value) noexcept { return make_value(value); }
PyObject* value_to_py(Device value) noexcept { return make_value(value); }

}  // namespace detail

ISTHMUS_END
