// Whether memory may be written, asked of an object's other protocols where `__dlpack__` cannot say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/python/runtime/buffers.h>
#include <isthmus/python/runtime/interned.h>
#include <isthmus/python/runtime/lookups.h>

ISTHMUS_BEGIN

namespace detail {

/// The second number of an interface's `data`. False, with a Python exception or without, if it does not say.
inline bool interface_is_read_only(PyObject* object, PyObject* name) {
    Ref described(PyObject_GetAttr(object, name));
    const Ref data = described && PyDict_Check(described.get()) ? dict_item(described.get(), "data") : Ref();
    if (!data || !PyTuple_Check(data.get()) || PyTuple_GET_SIZE(data.get()) != 2) return false;
    const Ref flag = Ref::borrow(PyTuple_GET_ITEM(data.get(), 1));
    return PyObject_IsTrue(flag.get()) > 0;
}

inline bool buffer_is_read_only(PyObject* object) {
    Py_buffer view;
    if (!PyObject_CheckBuffer(object) || !take_buffer(object, view, PyBUF_FULL_RO)) return false;
    const bool read_only = view.readonly != 0;
    end_buffer(view);
    return read_only;
}

/// Arrow's arrays are immutable by contract (arrow.apache.org, "The Arrow C data interface", "Immutability").
inline bool is_arrow_array(PyObject* object) {
    for (PyObject* name : {interned().arrow_array, interned().arrow_device_array}) {
        Ref found(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), name));
        if (found || !PyErr_ExceptionMatches(PyExc_Exception)) return static_cast<bool>(found);
        PyErr_Clear();
    }
    return false;
}

/// 1 when one of the object's other protocols says that its memory must not be written, 0 when none does, -1 with a Python
/// exception set that must not be swallowed.
ISTHMUS_NOINLINE inline int is_read_only_elsewhere(PyObject* object, bool on_host) {
    const Interned& names = interned();
    const auto interrupted = [] {
        if (PyErr_Occurred() == nullptr) return false;
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return true;
        PyErr_Clear();
        return false;
    };
    if (on_host && buffer_is_read_only(object)) return 1;
    if (interrupted()) return -1;
    if (interface_is_read_only(object, on_host ? names.array_interface : names.cuda_array_interface)) return 1;
    if (interrupted()) return -1;
    if (is_arrow_array(object)) return 1;
    return interrupted() ? -1 : 0;
}

}  // namespace detail

ISTHMUS_END
