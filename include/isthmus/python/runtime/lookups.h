// Items of a dictionary, a class or a sequence, as strong references: another thread may remove them at any moment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// The value of a key; empty if there is none, or with a Python exception set.
inline Ref dict_item(PyObject* dict, PyObject* key) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* value = nullptr;
    (void)PyDict_GetItemRef(dict, key, &value);
    return Ref(value);
#else
    return Ref::borrow(PyDict_GetItemWithError(dict, key));
#endif
}
/// The same for a name, without an exception.
inline Ref dict_item(PyObject* dict, const char* name) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* value = nullptr;
    if (PyDict_GetItemStringRef(dict, name, &value) < 0) PyErr_Clear();
    return Ref(value);
#else
    return Ref::borrow(PyDict_GetItemString(dict, name));
#endif
}
/// The value of a name, set to `made` if there was none, whichever thread asks first; empty with a Python exception set.
inline Ref dict_item_or(PyObject* dict, const char* name, PyObject* made) {
    Ref key(PyUnicode_InternFromString(name));
    if (!key) return {};
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* value = nullptr;
    (void)PyDict_SetDefaultRef(dict, key.get(), made, &value);
    return Ref(value);
#else
    return Ref::borrow(PyDict_SetDefault(dict, key.get(), made));
#endif
}

/// An item of a list or tuple that others may change; empty with an IndexError if it has become shorter.
inline Ref sequence_item(PyObject* sequence, Py_ssize_t i) {
#if defined(Py_GIL_DISABLED)
    if (PyList_Check(sequence)) return Ref(PyList_GetItemRef(sequence, i));
#endif
    return Ref::borrow(PySequence_Fast_GET_ITEM(sequence, i));
}

/// The attribute of a type or its bases. Looked up as CPython looks up special methods: not on the metaclass,
/// and no code runs.
inline Ref type_item(PyTypeObject* type, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
    return Ref(_PyType_LookupRef(type, name));
#else
    return Ref::borrow(_PyType_Lookup(type, name));
#endif
}

/// The bases of a type, itself the first: a tuple, or empty.
inline Ref bases_of(PyTypeObject* type) {
#if defined(Py_GIL_DISABLED)
    // Read by `type` itself, so that a metaclass cannot change the answer.
    Ref name(PyUnicode_InternFromString("__mro__"));
    const Ref member = name ? type_item(&PyType_Type, name.get()) : Ref();
    const descrgetfunc get = member ? Py_TYPE(member.get())->tp_descr_get : nullptr;
    auto* object = reinterpret_cast<PyObject*>(type);
    Ref bases(get != nullptr ? get(member.get(), object, reinterpret_cast<PyObject*>(Py_TYPE(type))) : nullptr);
    if (!bases) PyErr_Clear();
    return bases && PyTuple_Check(bases.get()) ? std::move(bases) : Ref();
#else
    return Ref::borrow(type->tp_mro);
#endif
}

}  // namespace detail

ISTHMUS_END
