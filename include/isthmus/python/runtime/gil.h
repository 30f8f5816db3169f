// The GIL: whether this thread holds it, and how a reference is given back without it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/deleter.h>
#include <isthmus/python/runtime/interpreter_guard.h>
#include <isthmus/python/runtime/ref.h>

ISTHMUS_BEGIN

/// Whether this thread may touch Python objects now.
inline bool have_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != nullptr;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != nullptr;
#else
    PyThreadState* running = _PyThreadState_UncheckedGet();  // of whichever thread holds the GIL
    return running != nullptr && running == PyGILState_GetThisThreadState();
#endif
}

namespace detail {

/// The GIL for the time of a drop; false when it cannot be had any more.
class GilForDrop {
public:
    GilForDrop() noexcept : held_(have_gil()) {
        if (held_) return;
        ::new (&guard_) InterpreterGuard();
        if (guard_) state_ = PyGILState_Ensure();
    }
    ~GilForDrop() {
        if (held_) return;
        if (guard_) PyGILState_Release(state_);
        guard_.~InterpreterGuard();
    }
    GilForDrop(const GilForDrop&) = delete;
    GilForDrop& operator=(const GilForDrop&) = delete;
    explicit operator bool() const noexcept { return held_ || static_cast<bool>(guard_); }

private:
    bool held_;
    PyGILState_STATE state_{};
    union {
        InterpreterGuard guard_;
    };
};

/// Gives back a reference from any thread, with or without the GIL, also while the interpreter ends.
ISTHMUS_NOINLINE inline void drop_object_elsewhere(PyObject* object) noexcept {
    if (GilForDrop gil; gil) Py_DECREF(object);
}
inline void drop_object(PyObject* object) noexcept {
    if (ISTHMUS_LIKELY(have_gil() && Py_REFCNT(object) > 1)) {
        Py_DECREF(object);
        return;
    }
    drop_object_elsewhere(object);
}

}  // namespace detail

ISTHMUS_END
