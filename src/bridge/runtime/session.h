// The interpreter session that this shared object serves, the guards that hold off its end, and how threads reach it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>

#include <isthmus/core/compiler.h>
#include <optional>

#include <isthmus/core/deleter.h>
#include <isthmus/core/memory.h>
#include "../../core/system.h"
#include "free_threaded.h"
#include "lookups.h"

ISTHMUS_BEGIN

namespace detail {

/// How many guards are held, and whether the interpreter has ended and gives out no more.
struct InterpreterUse {
    /// The upper half numbers the processes and sessions so far: a guard of an earlier one, which a forked child has
    /// inherited or a thread stopped for good still holds, is neither counted nor released. The lower half is the
    /// count.
    Atomic<std::uint64_t> guards;
    Atomic<bool> ended;
    Atomic<unsigned long> ending_thread;  ///< the one that ends it, by Python's number; set before `ended`

    static constexpr std::uint64_t era = std::uint64_t{1} << 32;

    void begin_era() noexcept { guards.store((guards.load() / era + 1) * era); }
    bool is_idle() const noexcept { return guards.load() % era == 0; }
};
ISTHMUS_STATE InterpreterUse interpreter_use;

/// Whether this thread is the one that ends the interpreter, which still has its objects. Alone it may take the GIL:
/// torch releases it around the end of a tensor, also while modules are torn down.
inline bool ends_the_interpreter() noexcept;

/// While one is held the interpreter does not end (the idea is PEP 788's), or only after a limited wait: see
/// wait_for_interpreter_guards(). Without one, a thread that takes the GIL to drop a tensor would be stopped if the
/// interpreter ended first. A thread that gets none leaks the reference, shortly before the process ends anyway.
class InterpreterGuard {
public:
    InterpreterGuard() noexcept : era_(interpreter_use.guards.fetch_add(1) / InterpreterUse::era) {
        held_ = interpreter_use.ended.load() ? ends_the_interpreter() : Py_IsInitialized() != 0;
        if (!held_) release();
    }
    ~InterpreterGuard() {
        if (held_) release();
    }
    InterpreterGuard(const InterpreterGuard&) = delete;
    InterpreterGuard& operator=(const InterpreterGuard&) = delete;
    explicit operator bool() const noexcept { return held_; }

private:
    void release() const noexcept {
        std::uint64_t now = interpreter_use.guards.load();
        while (now / InterpreterUse::era == era_ && !interpreter_use.guards.compare_exchange(now, now - 1)) continue;
    }
    std::uint64_t era_;
    bool held_;
};

/// Call before the first guard of a session is taken.
inline void allow_interpreter_guards() {
    // The threads that held a guard do not exist in a forked child.
    static const bool registered = (around_forks(nullptr, nullptr, [] { interpreter_use.begin_era(); }), true);
    (void)registered;
    interpreter_use.begin_era();
    interpreter_use.ended.store(false);
}

/// Called by the interpreter before it ends. The wait is limited: a finalizer may itself wait for something that the
/// interpreter does later in its end. The finalizer's thread is then stopped when it wants the GIL, as a daemon thread
/// is.
inline void wait_for_interpreter_guards() {
    constexpr int wait_ms = 2000;
    interpreter_use.ending_thread.store(PyThread_get_thread_ident());
    interpreter_use.ended.store(true);
    Py_BEGIN_ALLOW_THREADS for (int i = 0; i < wait_ms * 20 && !interpreter_use.is_idle(); ++i) sleep_microseconds(50);
    Py_END_ALLOW_THREADS
}

/// Something that ends with the interpreter session.
struct SessionBound {
    void (*forget)(SessionBound*) noexcept;
    SessionBound* next = nullptr;
    bool begun = false;
};

/// The session that this shared object serves now. The main interpreter has the same address in every session, so it
/// does not identify it; the generation rises with each end.
struct InterpreterSession {
    Atomic<PyInterpreterState*> interpreter;  ///< NULL before the first use in this session; also read without the GIL
    Atomic<std::uint32_t> generation{1};
    SessionBound* bound = nullptr;  ///< everything that was begun in this session
    StateMutex mutex;               ///< of everything above, and of the session's state while it is kept
};
ISTHMUS_STATE InterpreterSession interpreter_session;

inline bool ends_the_interpreter() noexcept {
    return interpreter_use.ending_thread.load() == PyThread_get_thread_ident() &&
           interpreter_session.interpreter.load() != nullptr;  // NULL once the interpreter has dropped its dictionary
}

/// Has end_session() forget it. The mutex of interpreter_session is held.
inline void bind_to_session(SessionBound& bound) noexcept {
    bound.next = interpreter_session.bound;
    interpreter_session.bound = &bound;
    store_shared(bound.begun, true);
}

/// State of one interpreter session: names, types, looked-up parts of a framework. It is T{} until something is kept in
/// this session, and T{} again when it is over, so that nothing of one session is ever used in the next. Reading it
/// costs nothing beyond the read. Finding what to keep may run Python code, during which other threads look for the
/// same: all of them find it, and the first value kept stays. A reference that is kept is released with the session, as
/// are those of a type that has `release_references()`; objects of frameworks are not, since their ends run code of
/// modules that have ended already.
template <class T>
class PerSession : SessionBound {
public:
    constexpr PerSession() noexcept : SessionBound{forget_value} {}
    PerSession(const PerSession&) = delete;
    PerSession& operator=(const PerSession&) = delete;

    const T& operator*() const noexcept { return *operator->(); }
    const T* operator->() const noexcept {
#if defined(Py_GIL_DISABLED)
        if (!load_shared(begun)) return &nothing;  // another thread may be writing it
#endif
        return &value_;
    }
    /// Keeps a value until this session ends; false, with nothing done, if there is one already. The session must have
    /// started (start_session()).
    bool keep(const T& made) noexcept {
        const StateLock lock(interpreter_session.mutex);
        if (begun) return false;
        value_ = made;
        bind_to_session(*this);
        return true;
    }
    /// The value itself, T{} at first, for a type that guards what it holds by its own means.
    T& begin() noexcept {
        const StateLock lock(interpreter_session.mutex);
        if (!begun) bind_to_session(*this);
        return value_;
    }

private:
    static void forget_value(SessionBound* self) noexcept {
        T& value = static_cast<PerSession*>(self)->value_;
        if constexpr (std::is_same_v<T, PyObject*> || std::is_same_v<T, PyTypeObject*>)
            Py_XDECREF(value);
        else if constexpr (requires { value.release_references(); })
            value.release_references();
        value = T{};
    }
    T value_{};
#if defined(Py_GIL_DISABLED)
    static constexpr T nothing{};
#endif
};

/// The interpreter drops its dictionary, the last of its parts that may hold objects: everything that belonged to this
/// session is dropped.
inline void end_session() noexcept {
    while (SessionBound* bound = interpreter_session.bound) {
        interpreter_session.bound = bound->next;
        store_shared(bound->begun, false);
        bound->forget(bound);
    }
    interpreter_session.interpreter.store(nullptr);
    interpreter_session.generation.store_relaxed(interpreter_session.generation.load_relaxed() + 1);
}

/// Whether Python code runs on this thread. It does if atexit's functions are called or cleared by hand, as
/// multiprocessing does, and the interpreter goes on; it does not if the interpreter itself calls them at its end.
inline bool python_code_is_running() noexcept {
    return Ref(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get()))).get() != nullptr;
}

/// The interpreter is about to end. It still runs code after this (other hooks, daemon threads, the destructors of
/// modules), perhaps in the middle of an import: what is cached stays until all that is over.
inline PyObject* interpreter_is_ending(PyObject*, PyObject*) {
    if (!python_code_is_running()) wait_for_interpreter_guards();
    Py_RETURN_NONE;
}

inline bool hook_the_end();

/// atexit has dropped the hook. If the interpreter goes on, a new hook is registered as soon as atexit is done.
inline void hook_is_gone(PyObject*) {
    if (!python_code_is_running()) return;
    Py_AddPendingCall(
        [](void*) {
            const bool is_done = interpreter_session.interpreter.load() != PyInterpreterState_Get() || hook_the_end();
            return !is_done && is_interrupted() ? -1 : 0;
        },
        nullptr);
}

/// The module atexit, of which the interpreter has a part built in: made of that, since an import takes importlib's
/// lock, which a child that was forked meanwhile finds taken for good. Empty with a Python exception set.
inline Ref make_atexit() {
    const _inittab* row = PyImport_Inittab;
    while (row != nullptr && row->name != nullptr && std::strcmp(row->name, "atexit") != 0) ++row;
    Ref definition(row != nullptr && row->name != nullptr ? Ref::borrow(row->initfunc()) : Ref());
    PyObject* namespace_of_sys = PySys_GetObject("implementation");  // borrowed; of the type types.SimpleNamespace
    if (!definition || !PyObject_TypeCheck(definition.get(), &PyModuleDef_Type) || namespace_of_sys == nullptr) {
        if (PyErr_Occurred() != nullptr) return {};
        return Ref(PyImport_ImportModule("atexit"));
    }
    auto* module = reinterpret_cast<PyModuleDef*>(definition.get());
    const Ref nothing(PyTuple_New(0)), words(Py_BuildValue("{ss}", "name", "atexit"));
    const Ref spec(nothing && words ? PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(namespace_of_sys)),
                                                    nothing.get(), words.get())
                                    : nullptr);
    Ref made(spec ? PyModule_FromDefAndSpec(module, spec.get()) : nullptr);
    return made && PyModule_ExecDef(made.get(), module) == 0 ? std::move(made) : Ref();
}
/// atexit.register, a function of C; empty with a Python exception set.
inline Ref find_atexit() {
    const Ref atexit(make_atexit());
    return Ref(atexit ? PyObject_GetAttrString(atexit.get(), "register") : nullptr);
}
/// Registers interpreter_is_ending() with atexit. False with a Python exception set.
inline bool hook_the_end(PyObject* atexit_register) {
    static PyMethodDef hook{"isthmus_interpreter_is_ending", interpreter_is_ending, METH_NOARGS, nullptr};
    Ref held_by_atexit(PyCapsule_New(&interpreter_session, nullptr, hook_is_gone));
    Ref function(held_by_atexit ? PyCFunction_New(&hook, held_by_atexit.get()) : nullptr);
    return function && Ref(PyObject_CallOneArg(atexit_register, function.get()));
}
inline bool hook_the_end() {
    const Ref atexit_register = find_atexit();
    return atexit_register && hook_the_end(atexit_register.get());
}

/// Functions by which other extensions manage the memory that this one keeps; found in capsules named
/// "isthmus.kept_memory".
struct KeptMemory {
    std::size_t (*trim)(std::size_t keep) noexcept;
};
inline constexpr const char* kept_memory_name = "isthmus.kept_memory";
ISTHMUS_STATE constexpr KeptMemory kept_memory{trim};

/// Puts a capsule of this shared object into the interpreter's dictionary. False with a Python exception set.
inline bool keep_in_interpreter(PyObject* dict, const char* name, const void* pointer,
                                PyCapsule_Destructor destructor) {
    char key[64];
    std::snprintf(key, sizeof key, "%s.%p", name, static_cast<void*>(&interpreter_session));
    Ref capsule(PyCapsule_New(const_cast<void*>(pointer), name, destructor));
    return capsule && PyDict_SetItemString(dict, key, capsule.get()) == 0;
}
/// Has end_session() called when the interpreter drops its dictionary, after all modules. Not by Py_AtExit(), which
/// takes only 32 functions in a process, too few for many extensions. False with a Python exception set.
inline bool join_interpreter(PyInterpreterState* here) {
    PyObject* dict = PyInterpreterState_GetDict(here);  // borrowed
    if (dict == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "isthmus: this interpreter keeps no dictionary");
        return false;
    }
    return keep_in_interpreter(dict, "isthmus.life", &interpreter_session, [](PyObject*) { end_session(); }) &&
           keep_in_interpreter(dict, kept_memory_name, &kept_memory, nullptr);
}

/// Whether this shared object is ready in the running interpreter. The GIL is held.
inline bool is_this_session() noexcept {
    return interpreter_session.interpreter.load_relaxed() == PyInterpreterState_Get();
}

/// How a thread gets to the interpreter that this shared object serves.
enum class InterpreterAccess {
    here,     ///< it runs that interpreter and holds its GIL
    ensure,   ///< it runs none: PyGILState_Ensure leads there, or nothing does any more
    another,  ///< it runs another interpreter, or would be led to another: a different thread has to do it
};

/// The thread state that runs on this thread, of whichever interpreter; NULL if there is none.
inline PyThreadState* running_thread_state() noexcept {
    PyThreadState* holding = holding_thread_state();
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState* running = _PyThreadState_UncheckedGet();  // of whichever thread holds the one GIL
    if (holding != nullptr || running == nullptr) return holding;
    // Perhaps that of a subinterpreter, which PyGILState does not know. If this thread has none, the state is another
    // thread's and may be freed at any moment.
    const bool alone = PyInterpreterState_Head() == PyInterpreterState_Main();
    if (!alone && running->thread_id == PyThread_get_thread_ident()) return running;
#endif
    return holding;
}

inline InterpreterAccess interpreter_access() noexcept {
    const PyInterpreterState* ours =
        interpreter_session.interpreter.load_relaxed();  // NULL before and after its session
    if (const PyThreadState* running = running_thread_state())
        return running->interp == ours || ours == nullptr ? InterpreterAccess::here : InterpreterAccess::another;
    const InterpreterGuard guard;  // a thread's own state is freed with the interpreter
    if (!guard) return InterpreterAccess::ensure;
    const PyThreadState* usual = PyGILState_GetThisThreadState();
    const PyInterpreterState* led_to = usual != nullptr ? usual->interp : PyInterpreterState_Main();
    return led_to == ours || ours == nullptr ? InterpreterAccess::ensure : InterpreterAccess::another;
}

/// Passed from a thread that runs another interpreter to a thread made for the purpose.
struct LeftBehind {
    InterpreterGuard guard;
    void (*release)(void*);
    void* object;

    static void run(void* self) {
        surviving_exit([self] {
            auto* left = static_cast<LeftBehind*>(self);
            PyThreadState* state = PyThreadState_New(interpreter_session.interpreter.load_relaxed());
            PyEval_RestoreThread(state);
            left->release(left->object);
            PyThreadState_Clear(state);
            PyThreadState_DeleteCurrent();
            delete left;
        });
    }
};
/// A new thread does it while this one goes on: this one may hold the other interpreter's GIL, for which a finalizer
/// may wait.
ISTHMUS_COLD inline void leave_to_another_thread(void (*release)(void*), void* object) noexcept {
    auto* left = new (std::nothrow) LeftBehind{{}, release, object};
    if (left == nullptr || !left->guard || !start_thread<LeftBehind::run>(left))
        delete left;  // the object is leaked: no thread can release it
}

/// release_with_gil() with a result of interpreter_access() that was just obtained.
ISTHMUS_NOINLINE inline void release_by(InterpreterAccess way, void (*release)(void*), void* object) noexcept {
    const NoCancellation whole;
    if (way == InterpreterAccess::here) return surviving_exit([=] { release(object); });
    const InterpreterGuard guard;
    if (!guard) return;
    if (way == InterpreterAccess::another) return leave_to_another_thread(release, object);
    surviving_exit([=] {
        const PyGILState_STATE state = PyGILState_Ensure();
        release(object);
        PyGILState_Release(state);
    });
}
/// Gives an object back with the GIL of its interpreter, from any thread; leaks it when that interpreter is no longer
/// available. `release` may be called later, on another thread, so `object` must not be on this one's stack.
ISTHMUS_NOINLINE inline void release_with_gil(void (*release)(void*), void* object) noexcept {
    const NoCancellation whole;
    release_by(interpreter_access(), release, object);
}

/// Takes the GIL for a call of `f`; false, without the call, if it cannot be had.
ISTHMUS_NOINLINE inline bool take_gil_for(void (*f)(void*), void* of) {
    const NoCancellation whole;
    const InterpreterGuard guard;
    if (!guard || interpreter_access() != InterpreterAccess::ensure) return false;
    const PyGILState_STATE state = PyGILState_Ensure();
    f(of);
    PyGILState_Release(state);
    return true;
}
/// Calls `f` with the GIL, which a thread that has none takes for the time of the call. `otherwise` if it cannot be
/// had: the interpreter has ended, or this thread runs another one.
template <class F, class Otherwise>
auto with_gil(F&& f, Otherwise&& otherwise) noexcept -> decltype(f()) {
    return surviving_exit([&] {
        if (have_gil()) return f();
        std::optional<decltype(f())> result;
        auto call = [&] { result.emplace(f()); };
        const auto run = [](void* of) { (*static_cast<decltype(call)*>(of))(); };
        return take_gil_for(run, &call) ? *std::move(result) : otherwise();
    });
}

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
