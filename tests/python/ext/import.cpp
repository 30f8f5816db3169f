// SPDX-License-Identifier: Apache-2.0
// borrow_py and from_py, and what they found.
#include "ext.h"

namespace ext {

bool Options::parse(PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"",         "require_writable", "allow_grad", "copy", "stream", "max_version",
                                  "argument", "device",           nullptr};
    const char* copy = "never";
    const char* argument = nullptr;
    PyObject* stream = Py_None;
    int require_writable = 0, allow_grad = 0, device_type = 0, device_id = 0;
    unsigned int major = import.max_version.major, minor = import.max_version.minor;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$ppsO(II)z(ii)", const_cast<char**>(names), &object,
                                     &require_writable, &allow_grad, &copy, &stream, &major, &minor, &argument,
                                     &device_type, &device_id))
        return false;
    import.require_writable = require_writable != 0;
    import.allow_grad = allow_grad != 0;
    import.max_version = DLPackVersion{major, minor};
    import.argument = argument;
    import.device = isthmus::Device{device_type, device_id};
    import.copy = std::strcmp(copy, "always") == 0          ? isthmus::Copy::always
                  : std::strcmp(copy, "if_needed") == 0     ? isthmus::Copy::if_needed
                  : std::strcmp(copy, "from_producer") == 0 ? isthmus::Copy::from_producer
                                                            : isthmus::Copy::never;
    if (stream != Py_None) {
        import.stream = PyLong_AsLongLong(stream);
        if (PyErr_Occurred() != nullptr) return false;
    }
    return true;
}

namespace {

template <PyObject* (*show)(const isthmus::Borrowed&)>
PyObject* with_borrowed(PyObject*, PyObject* args, PyObject* kwargs) {
    Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto borrowed = isthmus::borrow_py(options.object, options.import);
    return borrowed ? with_memory([&] { return show(*borrowed); }) : raise(borrowed.error());
}

template <PyObject* (*show)(const isthmus::Tensor&)>
PyObject* with_owned(PyObject*, PyObject* args, PyObject* kwargs) {
    Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto tensor = isthmus::from_py(options.object, options.import);
    return tensor ? with_memory([&] { return show(*tensor); }) : raise(tensor.error());
}

/// Borrows, and leaves with an exception of its own while the tensor is still held.
PyObject* borrow_and_raise(PyObject*, PyObject* object) {
    const auto borrowed = isthmus::borrow_py(object);
    if (!borrowed) return raise(borrowed.error());
    PyErr_SetString(PyExc_LookupError, "the function's own");
    return nullptr;
}

/// Imports the first item of a list by the list's own reference, which the producer can take away.
template <bool owning>
PyObject* import_first(PyObject*, PyObject* list) {
    if (!PyList_Check(list) || PyList_GET_SIZE(list) == 0)
        return PyErr_Format(PyExc_TypeError, "expected a list with an item");
    PyObject* item = PyList_GET_ITEM(list, 0);
    if constexpr (owning) {
        const auto tensor = isthmus::from_py(item);
        return tensor ? info(*tensor) : raise(tensor.error());
    } else {
        const auto borrowed = isthmus::borrow_py(item);
        return borrowed ? info(*borrowed) : raise(borrowed.error());
    }
}

/// Moves a Borrowed twice before it is read.
PyObject* borrow_moved(PyObject*, PyObject* object) {
    auto result = isthmus::borrow_py(object);
    if (!result) return raise(result.error());
    isthmus::Borrowed first = std::move(*result);
    isthmus::Borrowed second;
    second = std::move(first);
    return info(second);
}

/// Imports `count` times and drops at once; for counting and for the memory of the process.
template <bool owning>
PyObject* repeat(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    Py_ssize_t count = 0;
    if (!PyArg_ParseTuple(args, "On", &object, &count)) return nullptr;
    Py_ssize_t good = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        if constexpr (owning)
            good += isthmus::from_py(object).has_value();
        else
            good += isthmus::borrow_py(object).has_value();
    }
    return PyLong_FromSsize_t(good);
}

PyObject* import_null(PyObject*, PyObject*) {
    const auto tensor = isthmus::from_py(nullptr);
    return tensor ? PyLong_FromLong(0) : raise(tensor.error());
}

}  // namespace

PyMethodDef import_methods[] = {
    {"borrow", method(with_borrowed<info<isthmus::Borrowed>>), METH_VARARGS | METH_KEYWORDS,
     "borrow_py(x): what it says of the tensor, as a dict"},
    {"own", method(with_owned<info<isthmus::Tensor>>), METH_VARARGS | METH_KEYWORDS,
     "from_py(x), dropped again: the same dict"},
    {"borrow_elements", method(with_borrowed<elements<isthmus::Borrowed>>), METH_VARARGS | METH_KEYWORDS,
     "the elements as row-major bytes"},
    {"own_elements", method(with_owned<elements<isthmus::Tensor>>), METH_VARARGS | METH_KEYWORDS,
     "the same by from_py"},
    {"borrow_and_raise", borrow_and_raise, METH_O, "borrow_py(x), then LookupError while it is held"},
    {"borrow_first", import_first<false>, METH_O, "borrow_py(list[0]) by the list's reference"},
    {"own_first", import_first<true>, METH_O, "from_py(list[0]) by the list's reference"},
    {"borrow_moved", borrow_moved, METH_O, "borrow_py(x), the guard moved twice: the dict"},
    {"repeat_own", repeat<true>, METH_VARARGS, "from_py(x), n times: how many succeeded"},
    {"repeat_borrow", repeat<false>, METH_VARARGS, "borrow_py(x), n times: how many succeeded"},
    {"import_null", import_null, METH_NOARGS, "from_py(NULL)"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
