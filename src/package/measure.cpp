// SPDX-License-Identifier: Apache-2.0
// What `isthmus probe` and `isthmus bench` ask of the compiled part.
#include "package.h"

namespace {

const char* protocol_name(isthmus::detail::Protocol protocol) {
    using isthmus::detail::Protocol;
    switch (protocol) {
        case Protocol::none:
            return "none";
        case Protocol::isthmus_tensor:
            return "isthmus";
        case Protocol::torch_stable:
            return "torch stable C shims";
        case Protocol::torch_exchange:
            return "torch C exchange API";
        case Protocol::torch_method:
            return "torch __dlpack__";
        case Protocol::numpy:
            return "numpy's struct";
        case Protocol::exchange_api:
            return "C exchange API";
        case Protocol::buffer_or_dlpack:
            return "buffer or __dlpack__";
        case Protocol::dlpack_method:
            return "__dlpack__";
        case Protocol::cuda_array_interface:
            return "cuda array interface";
        case Protocol::buffer:
            return "buffer";
        case Protocol::array_interface:
            return "array interface";
        case Protocol::arrow_device_array:
            return "arrow device array";
        case Protocol::arrow_array:
            return "arrow array";
        case Protocol::capsule:
            return "capsule";
    }
    return "unknown";
}

PyObject* protocol_of(PyObject*, PyObject* x) {
    isthmus::detail::TypeEntry scratch;
    const isthmus::detail::TypeEntry* entry = isthmus::detail::find_type(Py_TYPE(x), scratch);
    return entry != nullptr ? PyUnicode_FromString(protocol_name(entry->protocol)) : nullptr;
}

PyObject* nothing(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) { Py_RETURN_NONE; }

}  // namespace

PyMethodDef package::measure_methods[] = {
    {"_protocol_of", protocol_of, METH_O,
     "_protocol_of($module, x, /)\n--\n\nThe way in that the type of `x` offers and from_dlpack takes."},
    {"_nothing", with_keywords(nothing), METH_FASTCALL | METH_KEYWORDS,
     "_nothing($module, x, /)\n--\n\nDoes nothing, by from_dlpack's calling convention: what a call costs by itself."},
    {nullptr, nullptr, 0, nullptr},
};
