// What one shared object keeps for one life of the interpreter, and how it forgets when that life ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <cstdio>

#include <isthmus/python/runtime/interpreter_guard.h>

ISTHMUS_BEGIN

namespace detail {

/// Something that ends with the interpreter's life.
struct LifeBound {
    void (*forget)(LifeBound*) noexcept;
    LifeBound* next = nullptr;
    bool begun = false;
};

/// The life that this shared object serves now. The main interpreter's address is the same in every life, so that an address
/// tells nothing; the generation rises with each end.
struct InterpreterLife {
    PyInterpreterState* interpreter = nullptr;  ///< NULL before the first use in this life
    std::uint32_t generation = 1;
    LifeBound* bound = nullptr;  ///< all that has begun in this life
};
ISTHMUS_STATE InterpreterLife interpreter_life;

/// State of one life of the interpreter: names, types, what was looked up of a framework. It is T{} until begin() was called in
/// this life, and T{} again when the life is over, so that nothing of one life is ever used in the next. Reading it costs
/// nothing beyond the read. Guarded by the GIL.
template <class T>
class PerLife : LifeBound {
public:
    constexpr PerLife() noexcept : LifeBound{forget_value} {}
    PerLife(const PerLife&) = delete;
    PerLife& operator=(const PerLife&) = delete;

    T& operator*() noexcept { return value_; }
    T* operator->() noexcept { return &value_; }
    /// The value, to be filled: it will be forgotten with this life. The life must have started (start_life()).
    T& begin() noexcept {
        if (!begun) {
            begun = true;
            next = interpreter_life.bound;
            interpreter_life.bound = this;
        }
        return value_;
    }

private:
    static void forget_value(LifeBound* self) noexcept { static_cast<PerLife*>(self)->value_ = T{}; }
    T value_{};
};

/// The interpreter is gone: everything that belonged to this life is forgotten. References are not given back, since there is
/// nobody left to give them to.
inline void end_life() noexcept {
    while (LifeBound* bound = interpreter_life.bound) {
        interpreter_life.bound = bound->next;
        bound->begun = false;
        bound->forget(bound);
    }
    interpreter_life.interpreter = nullptr;
    ++interpreter_life.generation;
}

/// The interpreter is about to end. It still runs code after this (other hooks, daemon threads, the destructors of modules),
/// some of it perhaps in the midst of an import: what is cached stays until all that is over.
inline PyObject* interpreter_is_ending(PyObject*, PyObject*) {
    wait_for_interpreter_guards();
    Py_RETURN_NONE;
}

/// Has end_life() called when the interpreter drops its dictionary, after all modules. Py_AtExit() has room for 32 in a
/// process, and an extension may be one of more. False with a Python exception set.
inline bool call_end_life_at_the_end(PyInterpreterState* here) {
    PyObject* dict = PyInterpreterState_GetDict(here);  // borrowed
    if (dict == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "isthmus: this interpreter keeps no dictionary");
        return false;
    }
    static const char* const name = "isthmus.life";
    char key[64];
    std::snprintf(key, sizeof key, "%s.%p", name, static_cast<void*>(&interpreter_life));
    Ref capsule(PyCapsule_New(&interpreter_life, name, [](PyObject*) { end_life(); }));
    return capsule && PyDict_SetItemString(dict, key, capsule.get()) == 0;
}

/// Makes this shared object ready in the running interpreter. False with a Python exception set.
ISTHMUS_NOINLINE inline bool start_life() {
    PyInterpreterState* here = PyInterpreterState_Get();
    if (interpreter_life.interpreter == here) return true;
    if (interpreter_life.interpreter != nullptr) {
        PyErr_SetString(PyExc_RuntimeError,
                        "isthmus is already in use in another interpreter of this process; subinterpreters are not supported, "
                        "use a process of its own");
        return false;
    }
    allow_interpreter_guards();
    static PyMethodDef hook{"isthmus_interpreter_is_ending", interpreter_is_ending, METH_NOARGS, nullptr};
    Ref function(PyCFunction_New(&hook, nullptr));
    Ref atexit(PyImport_ImportModule("atexit"));
    if (!function || !atexit) return false;
    Ref registered(PyObject_CallMethod(atexit.get(), "register", "O", function.get()));
    if (!registered || !call_end_life_at_the_end(here)) return false;
    interpreter_life.interpreter = here;
    return true;
}

}  // namespace detail

ISTHMUS_END
