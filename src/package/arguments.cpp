// Arguments of the functions of isthmus._isthmus: dtypes, devices, sizes.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

#include <isthmus/python/value_arguments.h>

namespace package {

bool read_dtype(PyObject* object, const char* argument, DType& out) {
    return isthmus::detail::load_value(object, out, nullptr, argument) == isthmus::detail::Loaded::yes;
}

bool read_device(PyObject* object, const char* argument, Device& out) {
    return isthmus::detail::load_value(object, out, nullptr, argument) == isthmus::detail::Loaded::yes;
}

bool read_sizes(PyObject* object, const char* argument, std::int64_t (&out)[isthmus::max_ndim], int& count) {
    using isthmus::detail::Integers;
    const Integers outcome = isthmus::detail::read_integers(object, out, isthmus::max_ndim, count, false);
    if (outcome == Integers::ok) return true;
    if (PyErr_Occurred() != nullptr) return false;  // it passes through
    const isthmus::detail::TextBuffer prefix = isthmus::detail::compose({"argument '", argument, "': "});
    if (outcome == Integers::not_integers) {
        (void)isthmus::detail::raise_argument(argument, object, "a tuple of integers", ErrorKind::type);
    } else if (outcome == Integers::too_many) {
        (void)isthmus::detail::raise(ErrorCode::bad_layout, ErrorKind::value,
                                     {prefix, "found ", count, " dimensions; expected at most ", isthmus::max_ndim});
    } else {
        Ref text(PyObject_Repr(object));
        const std::string_view utf8 = isthmus::detail::utf8_of(text.get());
        if (utf8.data() == nullptr) return false;
        (void)isthmus::detail::raise(ErrorCode::overflow, ErrorKind::value,
                                     {prefix, "found ", utf8, "; expected numbers that fit 64 bits"});
    }
    return false;
}

bool read_shape(PyObject* object, std::int64_t (&out)[isthmus::max_ndim], int& count) {
    const Ref sizes(PyIndex_Check(object) && !PyBool_Check(object) ? PyTuple_Pack(1, object) : Py_NewRef(object));
    return sizes && read_sizes(sizes.get(), "shape", out, count);
}

}  // namespace package
