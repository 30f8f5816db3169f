// The compiled part of `isthmus probe` and `isthmus bench`.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace {

using isthmus::Ref;
namespace detail = isthmus::detail;

PyObject* protocol_of(PyObject*, PyObject* x) {
    detail::ProducerType scratch;
    const detail::ProducerType* type = detail::find_type(Py_TYPE(x), scratch);
    return type != nullptr ? PyUnicode_FromString(detail::facts_of(type->protocol).name) : nullptr;
}

PyObject* protocol_names(PyObject*, PyObject*) {
    Ref names(PyTuple_New(detail::protocol_count));
    for (int i = 0; names && i < detail::protocol_count; ++i) {
        PyObject* name = PyUnicode_FromString(detail::protocols[i].name);
        if (name == nullptr) return nullptr;
        PyTuple_SET_ITEM(names.get(), i, name);
    }
    return names.release();
}

PyObject* framework_names(PyObject*, PyObject*) {
    Ref names(PyTuple_New(detail::framework_count));
    for (int i = 0; names && i < detail::framework_count; ++i) {
        const std::string_view said = detail::framework_facts[i].name;
        PyObject* name = PyUnicode_FromStringAndSize(said.data(), static_cast<Py_ssize_t>(said.size()));
        if (name == nullptr) return nullptr;
        PyTuple_SET_ITEM(names.get(), i, name);
    }
    return names.release();
}

PyObject* nothing(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) { Py_RETURN_NONE; }

}  // namespace

PyMethodDef package::measure_methods[] = {
    {"_protocol_of", protocol_of, METH_O,
     "_protocol_of($module, x, /)\n--\n\nThe way in that the type of `x` offers and from_dlpack takes."},
    {"_protocol_names", protocol_names, METH_NOARGS, "_protocol_names($module, /)\n--\n\nEvery way in, by name."},
    {"_framework_names", framework_names, METH_NOARGS,
     "_framework_names($module, /)\n--\n\nWhat Tensor.to() takes, in the order of the table."},
    {"_nothing", with_keywords(nothing), METH_FASTCALL | METH_KEYWORDS,
     "_nothing($module, x, /)\n--\n\nDoes nothing, by from_dlpack's calling convention: what a call costs by itself."},
    {nullptr, nullptr, 0, nullptr},
};
