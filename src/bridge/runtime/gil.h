// Releases Python objects from any thread, with or without the GIL, in any interpreter, also while it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "session.h"  // Python.h must come before any standard header

#include <new>

#include <isthmus/core/deleter.h>
#include <isthmus/python/ref.h>

ISTHMUS_BEGIN

namespace detail {

/// How a thread gets to the interpreter that this shared object serves.
enum class InterpreterAccess {
    here,     ///< it runs that interpreter and holds its GIL
    ensure,   ///< it runs none: PyGILState_Ensure leads there, or nothing does any more
    another,  ///< it runs another interpreter, or would be led to another: a different thread has to do it
};

InterpreterAccess interpreter_access() noexcept;

/// Gives an object back with the GIL of its interpreter, from any thread; leaks it when that interpreter is no longer
/// available. `release` may be called later, on another thread, so `object` must not be on this one's stack.
void release_with_gil(void (*release)(void*), void* object) noexcept;
/// The same with a result of interpreter_access() that was just obtained.
void release_by(InterpreterAccess way, void (*release)(void*), void* object) noexcept;

/// Whether the thread holds the GIL of our interpreter: interpreter_access() for callers that nearly always hold it.
inline bool runs_our_interpreter() noexcept {
    const PyThreadState* running = holding_thread_state();
    return running != nullptr && running->interp == interpreter_session.interpreter.load_relaxed();
}

/// Releases a reference that is not the last. False, with nothing released, if it may be the last, or without the GIL.
inline bool drop_shared_object(PyObject* object) noexcept {
    return ISTHMUS_LIKELY(runs_our_interpreter()) && drop_if_not_last(object);
}

/// Releases a reference from any thread, with or without the GIL, also while the interpreter ends.
inline void drop_object(PyObject* object) noexcept {
    if (ISTHMUS_LIKELY(drop_shared_object(object))) return;
    release_with_gil([](void* last) { Py_DECREF(static_cast<PyObject*>(last)); }, object);
}

}  // namespace detail

ISTHMUS_END
