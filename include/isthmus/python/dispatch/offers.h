// How a type shows that its instances come in by a protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/shared_runtime.h>  // Python.h must come before any standard header

#include <cstring>

#include <isthmus/python/framework/numpy/dtypes.h>
#include <isthmus/python/framework/torch/shims.h>
#include <isthmus/python/protocol/exchange_api/import.h>
#include <isthmus/python/protocol/protocol.h>

ISTHMUS_BEGIN

namespace detail {

/// A module that the process has already imported, as a new reference; empty otherwise.
inline Ref loaded_module(const char* name) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
    return Ref::borrow(module);
}

inline bool is_subtype_of(PyTypeObject* type, const char* module, const char* attribute) {
    Ref loaded = loaded_module(module);
    if (!loaded) return false;
    Ref base(PyObject_GetAttrString(loaded.get(), attribute));
    if (!base) PyErr_Clear();
    return base && PyType_Check(base.get()) && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.get()));
}

/// Whether the object has the attribute, None counting as none. An exception that must not be swallowed (KeyboardInterrupt and
/// its like) stays set, and the answer is no.
inline bool has_attribute(PyObject* object, PyObject* name) {
    if (PyErr_Occurred() != nullptr) return false;
    Ref value(PyObject_GetAttr(object, name));
    if (!value && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return value && value.get() != Py_None;
}
inline bool type_has(PyTypeObject* type, PyObject* name) { return has_attribute(reinterpret_cast<PyObject*>(type), name); }

/// numpy.ndarray or a subclass. The struct behind it is read directly, so that a stand-in under NumPy's name must not pass.
inline bool is_numpy_array_type(PyTypeObject* type) {
    Ref numpy = loaded_module("numpy");
    Ref found(numpy ? PyObject_GetAttrString(numpy.get(), "ndarray") : nullptr);
    if (!found) PyErr_Clear();
    if (!found || !PyType_Check(found.get())) return false;
    auto* array = reinterpret_cast<PyTypeObject*>(found.get());
    const bool genuine = !(array->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::strcmp(array->tp_name, "numpy.ndarray") == 0 &&
                         array->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(NumpyArray));
    return genuine && PyType_IsSubtype(type, array);
}

// Each answers for one row of isthmus/python/dispatch/protocols.h, and notes what its importer wants to know of the type.

inline bool offers_isthmus_tensor(ProducerType& type) {
    const PyTypeObject* tensor = shared_runtime()->tensor;
    return tensor != nullptr && PyType_IsSubtype(type.type, const_cast<PyTypeObject*>(tensor));
}
inline bool is_torch(const ProducerType& type) { return is_subtype_of(type.type, "torch._C", "TensorBase"); }
inline bool offers_torch_stable(ProducerType& type) {
    if (!is_torch(type) || !torch_has_shims()) return false;
    type.known_torch = torch_life->tensor_class != nullptr && PyType_IsSubtype(type.type, torch_life->tensor_class);
    return true;
}
inline bool offers_exchange_api(ProducerType& type) { return (type.api = find_exchange_api(type.type)) != nullptr; }
inline bool offers_torch_exchange(ProducerType& type) { return is_torch(type) && offers_exchange_api(type); }
inline bool offers_torch_method(ProducerType& type) { return is_torch(type); }
inline bool offers_numpy(ProducerType& type) { return is_numpy_array_type(type.type); }
inline bool offers_buffer(ProducerType& type) {
    return type.type->tp_as_buffer != nullptr && type.type->tp_as_buffer->bf_getbuffer != nullptr;
}
inline bool offers_capsule(ProducerType& type) { return type.type == &PyCapsule_Type; }
/// Only what is known by its name (known_producers).
inline bool offers_nothing(ProducerType&) { return false; }

}  // namespace detail

ISTHMUS_END
