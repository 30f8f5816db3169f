// Items of dictionaries, classes and sequences as strong references, tuples of integers, and buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "free_threaded.h"  // Python.h must come before any standard header

#include <cstdint>
#include <cstring>

ISTHMUS_BEGIN

namespace detail {

/// Whether an exception says nothing about whether an object fits: an interrupt (KeyboardInterrupt, SystemExit), or out
/// of memory. It reaches the caller unchanged.
ISTHMUS_NOINLINE inline bool passes_through(PyObject* exception) noexcept {
    return !PyErr_GivenExceptionMatches(exception, PyExc_Exception) ||
           PyErr_GivenExceptionMatches(exception, PyExc_MemoryError);
}
/// After a question that failed: clears the exception and returns false; an exception that passes_through() stays, and
/// the answer is true.
ISTHMUS_NOINLINE inline bool is_interrupted() noexcept {
    PyObject* raised = PyErr_Occurred();
    if (raised == nullptr) return false;
    if (passes_through(raised)) return true;
    PyErr_Clear();
    return false;
}

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
/// The same for a name, with no exception but MemoryError.
inline Ref dict_item(PyObject* dict, const char* name) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* value = nullptr;
    if (PyDict_GetItemStringRef(dict, name, &value) < 0) (void)is_interrupted();
    return Ref(value);
#else
    const Ref key(PyUnicode_FromString(name));
    Ref value = Ref::borrow(key ? PyDict_GetItemWithError(dict, key.get()) : nullptr);
    if (!value) (void)is_interrupted();
    return value;
#endif
}
/// The value of a name, set to `made` if there was none, whichever thread asks first; empty with a Python exception
/// set.
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

/// PyRun_String(), which without memory may end without an exception (CPython's tokenizer): NULL with one set.
ISTHMUS_COLD inline PyObject* run_python(const char* source, int start, PyObject* names) {
    PyObject* result = PyRun_String(source, start, names, names);
    if (result == nullptr && PyErr_Occurred() == nullptr) PyErr_NoMemory();
    return result;
}
/// A function that is written in Python, as of this module; empty with a Python exception set.
ISTHMUS_COLD inline Ref python_function(const char* source, const char* name, const char* module) {
    const Ref names(PyDict_New()), of_module(PyUnicode_FromString(module));
    if (!names || !of_module || PyDict_SetItemString(names.get(), "__name__", of_module.get()) != 0 ||
        PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) != 0)
        return {};
    const Ref done(run_python(source, Py_file_input, names.get()));
    return done ? dict_item(names.get(), name) : Ref();
}

/// An item of a list or tuple that others may change; empty with an IndexError if it has become shorter.
inline Ref sequence_item(PyObject* sequence, Py_ssize_t i) {
#if defined(Py_GIL_DISABLED)
    if (PyList_Check(sequence)) return Ref(PyList_GetItemRef(sequence, i));
#else
    if (PyList_Check(sequence)) return Ref::borrow(PyList_GetItem(sequence, i));
#endif
    return Ref::borrow(PyTuple_GET_ITEM(sequence, i));
}

/// The items of a list or tuple as they are now, in a tuple that nobody changes; empty with a Python exception set.
/// Unlike PySequence_Tuple() it asks no `__iter__` of a subclass.
inline Ref snapshot_of(PyObject* sequence) {
    return PyList_Check(sequence) ? Ref(PyList_AsTuple(sequence)) : Ref::borrow(sequence);
}

/// The attribute of a type or its bases. Looked up as CPython looks up special methods: not on the metaclass,
/// and no code runs.
inline Ref type_item(PyTypeObject* type, PyObject* name) {
    if (PyErr_Occurred() != nullptr) return {};  // CPython would clear it, where the name is not found
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
    if (!bases) (void)is_interrupted();
    return bases && PyTuple_Check(bases.get()) ? std::move(bases) : Ref();
#else
    return Ref::borrow(type->tp_mro);
#endif
}

/// value * factor, which need not fit 64 bits: the stride of a dimension that is never stepped along may be any number.
inline PyObject* product_of(std::int64_t value, std::int64_t factor) {
    std::int64_t product = 0;
    if (!ISTHMUS_MULTIPLY_OVERFLOWS(value, factor, product)) return PyLong_FromLongLong(product);
    Ref a(PyLong_FromLongLong(value)), b(PyLong_FromLongLong(factor));
    return a && b ? PyNumber_Multiply(a.get(), b.get()) : nullptr;
}

/// (values[0] * factor, …), a new reference; NULL with a Python exception set.
inline PyObject* tuple_of(const std::int64_t* values, int count, std::int64_t factor = 1) {
    Ref tuple(PyTuple_New(count));
    for (int i = 0; tuple && i < count; ++i) {
        PyObject* number = product_of(values[i], factor);
        if (number == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, number);
    }
    return tuple.release();
}

/// The outcome of read_integers().
enum class Integers : std::uint8_t { ok, not_integers, too_many, too_large };

/// Reads a sequence of integers, or of objects with `__index__`; bools only with `take_bools`. Leaves no exception but
/// one that passes_through().
ISTHMUS_COLD inline Integers read_integers(PyObject* sequence, std::int64_t* out, int room, int& count,
                                           bool take_bools = true) {
    const bool whole = PySequence_Check(sequence) && !PyUnicode_Check(sequence) && !PyBytes_Check(sequence);
    const Ref items(whole ? PySequence_Fast(sequence, "") : nullptr);
    const Py_ssize_t size = items ? PySequence_Fast_GET_SIZE(items.get()) : 0;
    Integers outcome = !items ? Integers::not_integers : size > room ? Integers::too_many : Integers::ok;
    for (Py_ssize_t i = 0; outcome == Integers::ok && i < size; ++i) {
        const Ref item = sequence_item(items.get(), i);
        const bool refused = !item || (!take_bools && PyBool_Check(item.get()));
        const Ref number(refused ? nullptr : PyNumber_Index(item.get()));
        int overflow = 0;
        const long long value = number ? PyLong_AsLongLongAndOverflow(number.get(), &overflow) : 0;
        out[i] = value;
        if (!number)
            outcome = Integers::not_integers;
        else if (overflow != 0)
            outcome = Integers::too_large;
    }
    (void)is_interrupted();
    count = static_cast<int>(size);
    return outcome;
}
/// A pair of integers, as DLPack's Python side passes versions and devices; false also if one does not fit.
template <class Number>
bool read_pair(PyObject* object, Number& first, Number& second) {
    std::int64_t pair[2] = {};
    int count = 0;
    const bool good = read_integers(object, pair, 2, count) == Integers::ok && count == 2;
    first = static_cast<Number>(pair[0]);
    second = static_cast<Number>(pair[1]);
    return good && first == pair[0] && second == pair[1];
}

#if defined(Py_GIL_DISABLED)

/// Whether the exporter is CPython's bytearray, memoryview or array.array: 3.13 counts their exports without a lock.
/// None of them runs Python code when a buffer is taken or released.
inline bool lends_without_a_lock(PyTypeObject* type) noexcept {
    const auto lender = [](PyTypeObject* t) {
        return t->tp_as_buffer != nullptr ? t->tp_as_buffer->bf_getbuffer : nullptr;
    };
    const getbufferproc lend = lender(type);
    if (lend == lender(&PyByteArray_Type) || lend == lender(&PyMemoryView_Type)) return true;
    while (type->tp_base != nullptr && lender(type->tp_base) == lend) type = type->tp_base;
    return std::strcmp(type->tp_name, "array.array") == 0;
}

/// PyObject_GetBuffer(), which excludes other threads that take or release a buffer of the same object by these
/// functions.
inline bool take_buffer(PyObject* exporter, Py_buffer& view, int flags) {
    if (!lends_without_a_lock(Py_TYPE(exporter))) return PyObject_GetBuffer(exporter, &view, flags) == 0;
    const ObjectLock lock(exporter);
    return PyObject_GetBuffer(exporter, &view, flags) == 0;
}
/// PyBuffer_Release().
inline void end_buffer(Py_buffer& view) {
    if (view.obj == nullptr || !lends_without_a_lock(Py_TYPE(view.obj))) return PyBuffer_Release(&view);
    const Ref exporter = Ref::borrow(view.obj);  // keeps the object alive while its lock is held
    const ObjectLock lock(exporter.get());
    PyBuffer_Release(&view);
}

#else

inline bool take_buffer(PyObject* exporter, Py_buffer& view, int flags) {
    return PyObject_GetBuffer(exporter, &view, flags) == 0;
}
inline void end_buffer(Py_buffer& view) { PyBuffer_Release(&view); }

#endif

}  // namespace detail

ISTHMUS_END
