// What the functions of isthmus._isthmus read from Python: dtypes, devices, sizes.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace package {

namespace {

template <class Value>
bool read_value(PyObject* object, const char* argument, PyTypeObject* type, Value& out) {
    if (isthmus::detail::value_from_python(object, type, out)) return true;
    const bool right_type = PyUnicode_Check(object) || PyTuple_Check(object);
    (void)isthmus::detail::raise_argument(argument, object, isthmus::detail::wanted_value(object, out).c_str(),
                                          right_type ? ErrorKind::value : ErrorKind::type);
    return false;
}

}  // namespace

bool read_dtype(PyObject* object, const char* argument, DType& out) {
    return read_value(object, argument, isthmus::detail::shared_types()->dtype, out);
}

bool read_device(PyObject* object, const char* argument, Device& out) {
    return read_value(object, argument, isthmus::detail::shared_types()->device, out);
}

bool read_sizes(PyObject* object, const char* argument, std::int64_t (&out)[isthmus::max_ndim], int& count) {
    const bool whole = !PyUnicode_Check(object) && !PyBytes_Check(object) && PySequence_Check(object);
    Ref items(whole ? PySequence_Fast(object, "") : nullptr);
    if (!items) {
        PyErr_Clear();
        (void)isthmus::detail::raise_argument(argument, object, "a tuple of integers", ErrorKind::type);
        return false;
    }
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(items.get());
    if (size > isthmus::max_ndim) {
        (void)isthmus::detail::raise(ErrorCode::bad_layout, ErrorKind::value,
                                     isthmus::detail::argument_prefix(argument) + "found " + std::to_string(size) +
                                         " dimensions; wanted at most " + std::to_string(isthmus::max_ndim));
        return false;
    }
    for (Py_ssize_t i = 0; i < size; ++i) {
        const Ref item = isthmus::detail::sequence_item(items.get(), i);
        Ref number(!item || PyBool_Check(item.get()) ? nullptr : PyNumber_Index(item.get()));
        if (!number) {
            PyErr_Clear();
            (void)isthmus::detail::raise_argument(argument, object, "a tuple of integers", ErrorKind::type);
            return false;
        }
        int too_large = 0;
        out[i] = PyLong_AsLongLongAndOverflow(number.get(), &too_large);
        if (too_large != 0) {
            Ref text(PyObject_Repr(object));
            const std::string_view utf8 = isthmus::detail::utf8_of(text.get());
            if (utf8.data() == nullptr) return false;
            (void)isthmus::detail::raise(
                ErrorCode::overflow, ErrorKind::value,
                {isthmus::detail::argument_prefix(argument), "found ", utf8, "; wanted numbers that fit 64 bits"});
            return false;
        }
    }
    count = static_cast<int>(size);
    return true;
}

}  // namespace package
