// Releases Python objects from any thread, with or without the GIL, in any interpreter, also while it ends.
// SPDX-License-Identifier: Apache-2.0
#include "gil.h"
#include "../../core/system.h"

ISTHMUS_BEGIN

namespace detail {

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

InterpreterAccess interpreter_access() noexcept {
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

ISTHMUS_NOINLINE void release_with_gil(void (*release)(void*), void* object) noexcept {
    const NoCancellation whole;
    release_by(interpreter_access(), release, object);
}
ISTHMUS_NOINLINE void release_by(InterpreterAccess way, void (*release)(void*), void* object) noexcept {
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

}  // namespace detail

ISTHMUS_END
