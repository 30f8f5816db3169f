// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <isthmus/core/block.h>
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

/// The interpreter may end while other threads still drop tensors. Threads that want the GIL for that announce themselves;
/// the interpreter's atexit hook closes the door and waits for those inside. Whoever comes later leaves the reference to the
/// end of the process: a leak of memory that is about to vanish, where taking the GIL would kill the thread.
struct Door {
    Atomic<int> inside;
    Atomic<bool> closed;
};
ISTHMUS_STATE Door door;

/// Passage through the door for a thread without the GIL.
class DoorPass {
public:
    DoorPass() noexcept {
        door.inside.fetch_add(1);
        allowed_ = !door.closed.load() && Py_IsInitialized() != 0;
        if (!allowed_) door.inside.fetch_sub(1);
    }
    ~DoorPass() {
        if (allowed_) door.inside.fetch_sub(1);
    }
    DoorPass(const DoorPass&) = delete;
    DoorPass& operator=(const DoorPass&) = delete;
    explicit operator bool() const noexcept { return allowed_; }

private:
    bool allowed_;
};

/// The GIL for the time of a drop; false when it cannot be had any more.
class GilForDrop {
public:
    GilForDrop() noexcept : held_(have_gil()) {
        if (held_) return;
        ::new (&pass_) DoorPass();
        if (pass_) state_ = PyGILState_Ensure();
    }
    ~GilForDrop() {
        if (held_) return;
        if (pass_) PyGILState_Release(state_);
        pass_.~DoorPass();
    }
    GilForDrop(const GilForDrop&) = delete;
    GilForDrop& operator=(const GilForDrop&) = delete;
    explicit operator bool() const noexcept { return held_ || static_cast<bool>(pass_); }

private:
    bool held_;
    PyGILState_STATE state_;
    union {
        DoorPass pass_;
    };
};

/// Gives back a reference from any thread, with or without the GIL, also while the interpreter ends.
ISTHMUS_COLD inline void drop_object_elsewhere(PyObject* object) noexcept {
    if (GilForDrop gil; gil) Py_DECREF(object);
}
inline void drop_object(PyObject* object) noexcept {
    if (ISTHMUS_LIKELY(have_gil() && Py_REFCNT(object) > 1)) {
        Py_DECREF(object);
        return;
    }
    drop_object_elsewhere(object);
}

/// Before the first thread can pass. A forked child is without the threads that were inside, so nobody would ever come out.
inline void open_door() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { door.inside.store(0); });
    (void)registered;
    door.closed.store(false);
}
/// The hook that the interpreter calls before it ends.
inline void close_door() {
    door.closed.store(true);
    Py_BEGIN_ALLOW_THREADS while (door.inside.load() != 0) usleep(50);
    Py_END_ALLOW_THREADS
}

}  // namespace detail

ISTHMUS_END
