// Ref: one strong reference to a Python object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_SSIZE_T_CLEAN
// Of isthmus::abi3; a binder or CMake may have asked for a newer one.
#if defined(ISTHMUS_ABI3) && !defined(Py_LIMITED_API)
#if defined(Py_PYTHON_H)
#include "isthmus::abi3: Python.h came before: include Isthmus first, or compile with -DPy_LIMITED_API=0x030A0000"
#endif
#if defined(Py_TARGET_ABI3T)
#define Py_LIMITED_API Py_TARGET_ABI3T
#else
#define Py_LIMITED_API 0x030A0000
#endif
#endif
#if defined(Py_TARGET_ABI3T) && !defined(ISTHMUS_ABI3)
#include "Py_TARGET_ABI3T asks for a stable ABI: compile with the flags of isthmus::abi3 (--cflags --abi3)"
#endif
#include <Python.h>

#include <utility>

#include <isthmus/core/config.h>

#if defined(PYPY_VERSION)
#include "Isthmus needs CPython: PyPy has other objects and other references"
#endif
#if PY_VERSION_HEX < 0x030A0000
#include "Isthmus needs CPython 3.10 or newer"
#endif

// The limited API has it since 3.11; its layout is that of 3.0.
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030B0000
struct Py_buffer {
    void* buf;
    PyObject* obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char* format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void* internal;
};
#endif

ISTHMUS_BEGIN

#if defined(Py_LIMITED_API)
/// The state of this thread, if it holds the GIL; else NULL.
PyThreadState* holding_thread_state() noexcept;
#else
/// The state of this thread, if it holds the GIL; else NULL.
inline PyThreadState* holding_thread_state() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet();
#else
    PyThreadState* running = _PyThreadState_UncheckedGet();  // of whichever thread holds the GIL
    return running == PyGILState_GetThisThreadState() ? running : nullptr;
#endif
}
#endif
/// Whether this thread may touch Python objects now.
inline bool have_gil() noexcept { return holding_thread_state() != nullptr; }

/// One strong reference, released with the GIL held: for use inside a call from Python.
class Ref {
public:
    /// No reference.
    Ref() noexcept = default;
    /// Takes over a new reference.
    explicit Ref(PyObject* stolen) noexcept : object_(stolen) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    /// When the interpreter's end has stopped a thread inside a call, its stack is unwound without the GIL: the
    /// reference is then leaked.
    ~Ref() noexcept(false) {
        if (object_ != nullptr) drop(object_);
    }

    /// A new reference to an object that belongs to somebody else; NULL gives none.
    static Ref borrow(PyObject* object) noexcept {
        Py_XINCREF(object);
        return Ref(object);
    }
    /// The object, borrowed; NULL if there is none.
    PyObject* get() const noexcept { return object_; }
    /// The reference, which is the caller's from then on.
    PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

private:
    friend struct detail::BackendAccess;
    static void drop(PyObject* object);

    PyObject* object_ = nullptr;
};

ISTHMUS_END
