// The start of an interpreter session for this shared object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/object_owner.h>  // Python.h must come before any standard header

#include <isthmus/python/runtime/life.h>

ISTHMUS_BEGIN

namespace detail {

/// Makes this shared object ready in the running interpreter. False with a Python exception set.
ISTHMUS_NOINLINE inline bool start_life() {
    PyInterpreterState* here = PyInterpreterState_Get();
    PyInterpreterState* ours = interpreter_life.interpreter.load_relaxed();
    if (ours == here) return true;
    if (ours != nullptr) {
        PyErr_SetString(PyExc_RuntimeError,
                        "isthmus is already in use in another interpreter of this process; subinterpreters are not supported, "
                        "use a process of its own");
        return false;
    }
    // The import may run Python code, during which another thread may get this far; what follows runs none.
    const Ref atexit_register = find_atexit();
    if (!atexit_register) return false;
    const StateLock lock(interpreter_life.mutex);
    if (is_this_life()) return true;
    allow_interpreter_guards();
    if (!begin_python_owners()) return PyErr_NoMemory() != nullptr;
    if (!hook_the_end(atexit_register.get()) || !join_interpreter(here)) return false;
    interpreter_life.interpreter.store(here);
    return true;
}

}  // namespace detail

ISTHMUS_END
