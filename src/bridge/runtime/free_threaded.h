// The guarantees of the GIL, for an interpreter without one: one name for each guarantee, free of cost with a GIL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <cstdint>

ISTHMUS_BEGIN

namespace detail {

#if defined(Py_GIL_DISABLED)

#if PY_VERSION_HEX < 0x030D0000
#include "Isthmus needs CPython 3.13 or newer where it was built without the GIL"
#endif

/// Guards what several threads write, for a moment: its holder runs neither Python code nor any other foreign code.
struct StateMutex {
    PyMutex mutex{};
};
class StateLock {
public:
    explicit StateLock(StateMutex& state) noexcept : mutex_(state.mutex) { PyMutex_Lock(&mutex_); }
    ~StateLock() { PyMutex_Unlock(&mutex_); }
    StateLock(const StateLock&) = delete;
    StateLock& operator=(const StateLock&) = delete;

private:
    PyMutex& mutex_;
};

/// The lock of one Python object (CPython's critical section). Its holder runs no Python code.
class ObjectLock {
public:
    explicit ObjectLock(PyObject* object) noexcept { PyCriticalSection_Begin(&section_, object); }
    ~ObjectLock() { PyCriticalSection_End(&section_); }
    ObjectLock(const ObjectLock&) = delete;
    ObjectLock& operator=(const ObjectLock&) = delete;

private:
    PyCriticalSection section_;
};

/// A plain member that one thread writes and others read at the same time. A reader that sees the stored value also
/// sees everything written before it.
template <class T>
T load_shared(const T& place) noexcept {
    return AtomicRef(place).load_acquire();
}
template <class T>
void store_shared(T& place, T value) noexcept {
    AtomicRef(place).store_release(value);
}
inline void count_shared(std::uint32_t& count, std::uint32_t more) noexcept { AtomicRef(count).fetch_add(more); }
/// Stores `made` if there is no value yet; false if another thread was first.
template <class T>
bool store_first(T*& place, T* made) noexcept {
    T* nothing = nullptr;
    return AtomicRef(place).compare_exchange(nothing, made);
}

// The two counts of an object, as Py_INCREF and Py_DECREF know them in the code that they are compiled into (object.h):
// that of the thread that owns it, and that of all others, whose lowest bits say what state it is in.

/// Releases a reference that is certainly not the last, whatever other threads do meanwhile; false, with nothing done,
/// if that is not certain.
inline bool drop_if_not_last(PyObject* object) noexcept {
    const std::uint32_t local = AtomicRef(object->ob_ref_local).load_relaxed();
    if (local == UINT32_MAX) return true;  // immortal
    if (_Py_IsOwnedByCurrentThread(object)) {
        if (local <= 1) return false;
        AtomicRef(object->ob_ref_local).store_relaxed(local - 1);
        return true;
    }
    constexpr Py_ssize_t one = Py_ssize_t{1} << _Py_REF_SHARED_SHIFT;
    Py_ssize_t shared = AtomicRef(object->ob_ref_shared).load_relaxed();
    // Until the counts are merged the owner has references too.
    while (shared >= ((shared & _Py_REF_SHARED_FLAG_MASK) == _Py_REF_MERGED ? 2 : 1) * one)
        if (AtomicRef(object->ob_ref_shared).compare_exchange(shared, shared - one)) return true;
    return false;
}
inline bool may_be_last(PyObject* object) noexcept { return Py_REFCNT(object) <= 1; }
/// The same after may_be_last() said no, which another thread may have made untrue.
inline bool drop_if_still_not_last(PyObject* object) noexcept { return drop_if_not_last(object); }

/// Has the references to a class of ours counted no more, as CPython has those to the classes of Python code: every
/// instance holds one, and all threads would count theirs in one place. The class is never freed. Call on the thread
/// that made it.
inline void stop_counting(PyTypeObject* type) noexcept {
    AtomicRef(reinterpret_cast<PyObject*>(type)->ob_ref_local).store_relaxed(UINT32_MAX);
}

#if PY_VERSION_HEX >= 0x030E0000
inline void let_others_try(PyObject* fresh) noexcept { PyUnstable_EnableTryIncRef(fresh); }
inline bool try_reference(PyObject* object) noexcept { return PyUnstable_TryIncRef(object) != 0; }
#else
/// Call before another thread may call try_reference() for a new object: its counts then show when it dies.
inline void let_others_try(PyObject* fresh) noexcept {
    AtomicRef(fresh->ob_ref_shared).fetch_or(Py_ssize_t{_Py_REF_MAYBE_WEAKREF});
}
/// A reference to an object whose memory is still there, unless the object is already being destroyed.
inline bool try_reference(PyObject* object) noexcept {
    const std::uint32_t local = AtomicRef(object->ob_ref_local).load_relaxed();
    if (local == UINT32_MAX) return true;  // immortal
    if (_Py_IsOwnedByCurrentThread(object)) {
        AtomicRef(object->ob_ref_local).store_relaxed(local + 1);
        return true;
    }
    constexpr Py_ssize_t one = Py_ssize_t{1} << _Py_REF_SHARED_SHIFT;
    Py_ssize_t shared = AtomicRef(object->ob_ref_shared).load_relaxed();
    while (shared != 0 && shared != _Py_REF_MERGED)
        if (AtomicRef(object->ob_ref_shared).compare_exchange(shared, shared + one)) return true;
    return false;
}
#endif

#else

// With a destructor, so that no compiler calls them unused (nvcc knows no attribute for it).
struct StateMutex {};
struct StateLock {
    explicit StateLock(StateMutex&) noexcept {}
    ~StateLock() {}
};
struct ObjectLock {
    explicit ObjectLock(PyObject*) noexcept {}
    ~ObjectLock() {}
};
template <class T>
T load_shared(const T& place) noexcept {
    return place;
}
template <class T>
void store_shared(T& place, T value) noexcept {
    place = value;
}
inline void count_shared(std::uint32_t& count, std::uint32_t more) noexcept { count += more; }
template <class T>
bool store_first(T*& place, T* made) noexcept {
    if (place != nullptr) return false;
    place = made;
    return true;
}
inline bool may_be_last(PyObject* object) noexcept { return Py_REFCNT(object) <= 1; }
inline bool drop_if_not_last(PyObject* object) noexcept {
    if (ISTHMUS_UNLIKELY(may_be_last(object))) return false;
    Py_DECREF(object);
    return true;
}
inline bool drop_if_still_not_last(PyObject* object) noexcept {
    Py_DECREF(object);
    return true;
}
inline void stop_counting(PyTypeObject*) noexcept {}

#endif

}  // namespace detail

ISTHMUS_END
