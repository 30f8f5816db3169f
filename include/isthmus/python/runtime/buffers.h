// Buffers of Python objects, taken and given back, also by several threads at once from the same object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <cstring>

ISTHMUS_BEGIN

namespace detail {

#if defined(Py_GIL_DISABLED)

/// Whether it is CPython's bytearray, memoryview or array.array that lends: 3.13 counts without a lock what they have lent.
/// None of them runs code of Python for it.
inline bool lends_without_a_lock(PyTypeObject* type) noexcept {
    const auto lender = [](PyTypeObject* t) { return t->tp_as_buffer != nullptr ? t->tp_as_buffer->bf_getbuffer : nullptr; };
    const getbufferproc lend = lender(type);
    if (lend == lender(&PyByteArray_Type) || lend == lender(&PyMemoryView_Type)) return true;
    while (type->tp_base != nullptr && lender(type->tp_base) == lend) type = type->tp_base;
    return std::strcmp(type->tp_name, "array.array") == 0;
}

/// PyObject_GetBuffer(). Others that ask the same object at the same moment are kept out where they come by here as well.
inline bool take_buffer(PyObject* exporter, Py_buffer& view, int flags) {
    if (!lends_without_a_lock(Py_TYPE(exporter))) return PyObject_GetBuffer(exporter, &view, flags) == 0;
    const ObjectLock lock(exporter);
    return PyObject_GetBuffer(exporter, &view, flags) == 0;
}
/// PyBuffer_Release().
inline void end_buffer(Py_buffer& view) {
    if (view.obj == nullptr || !lends_without_a_lock(Py_TYPE(view.obj))) return PyBuffer_Release(&view);
    const Ref exporter = Ref::borrow(view.obj);  // which must not die within its lock
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
