// Buffers of Python objects, taken and released, also by several threads at once from the same object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "free_threaded.h"  // Python.h must come before any standard header

#include <cstdint>
#include <cstring>

ISTHMUS_BEGIN

namespace detail {

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
