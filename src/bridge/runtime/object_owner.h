// Python objects as the owners of memory, the object that shows a block, and how a session begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "free_threaded.h"  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#include "../../core/libraries.h"
#include "../../core/managed_tensor.h"
#include "errors.h"
#include "lookups.h"
#include "session.h"

#if defined(Py_GIL_DISABLED)
#include <sched.h>
#endif

ISTHMUS_BEGIN

namespace detail {

#if defined(Py_GIL_DISABLED)

// The object dies when its last reference is dropped, on any thread, and is freed after it was removed from the block.
// So a thread that finds it there locks it in place, by the lowest bit of the pointer, while it increments the object's
// count.

inline constexpr std::uintptr_t held_bit = 1;
inline PyObject* without_held_bit(void* shown) noexcept {
    return reinterpret_cast<PyObject*>(reinterpret_cast<std::uintptr_t>(shown) & ~held_bit);
}
/// Waits while another thread, which may have been stopped halfway, holds the pointer.
inline void wait_for_wrapper(int& tries) noexcept {
    if (++tries > 64) sched_yield();
}

/// The object that shows the block, borrowed; the caller must hold it already.
inline PyObject* wrapper_of(const Block* block) noexcept { return without_held_bit(block->wrapper.load_acquire()); }

/// The same as a new reference; NULL if there is none of this type, or one that is about to die. The type is that of
/// this session: an object that an earlier session left behind is not returned. `seen` is the one found, for show().
inline PyObject* hold_wrapper(Block* block, const PyTypeObject* type, PyObject*& seen) noexcept {
    void* now = block->wrapper.load_acquire();
    for (int tries = 0;; wait_for_wrapper(tries)) {
        seen = without_held_bit(now);
        if (seen == nullptr) return nullptr;
        void* free = seen;
        auto* held = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(seen) | held_bit);
        if (block->wrapper.compare_exchange(free, held)) break;
        now = free;
    }
    const bool alive = Py_TYPE(seen) == type && try_reference(seen);
    block->wrapper.store(seen);
    return alive ? seen : nullptr;
}
/// Makes a new object show the block, in place of what hold_wrapper() saw; false if another thread was faster.
inline bool show(Block* block, PyObject* object, PyObject* seen) noexcept {
    let_others_try(object);
    void* expected = seen;
    return block->wrapper.compare_exchange(expected, object);
}
/// From here on the block is shown by another object or by none.
inline void hide(Block* block, PyObject* object) noexcept {
    void* expected = object;
    for (int tries = 0; !block->wrapper.compare_exchange(expected, nullptr); wait_for_wrapper(tries)) {
        if (without_held_bit(expected) != object) return;
        expected = object;
    }
}

#else

inline PyObject* wrapper_of(const Block* block) noexcept {
    return static_cast<PyObject*>(block->wrapper.load_relaxed());
}
/// A new reference to the object that shows the block; NULL if there is none of this type, which is that of this
/// session: an object that an earlier session left behind is not returned. One that is about to die is not revived,
/// whichever extension's code destroys it.
inline PyObject* hold_wrapper(Block* block, const PyTypeObject* type, PyObject*& seen) noexcept {
    seen = wrapper_of(block);
    if (seen == nullptr || ISTHMUS_UNLIKELY(Py_REFCNT(seen) == 0 || Py_TYPE(seen) != type)) return nullptr;
    return Py_NewRef(seen);
}
inline bool show(Block* block, PyObject* object, PyObject*) noexcept {
    block->wrapper.store_relaxed(object);
    return true;
}
inline void hide(Block* block, PyObject* object) noexcept {
    if (wrapper_of(block) == object) block->wrapper.store_relaxed(nullptr);
}

#endif

/// Runs a foreign release that may call Python: it must neither see an exception set by us nor leave one behind. Called
/// without the GIL, it takes the GIL itself if it needs it.
template <class F>
void release_here(F&& release) {
    const bool python = have_gil();
    const PendingException pending(python);
    release();
    if (ISTHMUS_UNLIKELY(python && PyErr_Occurred() != nullptr)) PyErr_WriteUnraisable(nullptr);
}

/// release_here(), except that a thread that runs another interpreter leaves it to a thread of ours: `object` must not
/// be on the stack. A thread that runs no interpreter takes a guard: the release may want a thread state, which an
/// ending interpreter would free meanwhile. If there are no guards any more the object stays held, unless the
/// interpreter has already ended: then the release can no longer want it.
inline void release_in_python(void (*release)(void*), void* object) {
    if (ISTHMUS_LIKELY(runs_our_interpreter())) return release_here([=] { release(object); });
    if (interpreter_access() == InterpreterAccess::another) return release_with_gil(release, object);
    const InterpreterGuard guard;
    if (guard || Py_IsInitialized() == 0) release_here([=] { release(object); });
}

template <class Managed>
void end_managed_in_python(void* managed) {
    release_in_python(end_owner_managed<Managed>, managed);
}

/// The same if the session that it was made in is over: the Python parts that the release may use are gone, and only if
/// no interpreter runs is it known to keep away from one.
template <class Managed>
void leave_managed(void* managed) {
    if (Py_IsInitialized() == 0) end_managed_in_python<Managed>(managed);
}

inline void* new_reference(void* object) noexcept {
    Py_INCREF(static_cast<PyObject*>(object));
    return object;
}

inline void release_object(void* object) { drop_object(static_cast<PyObject*>(object)); }
inline bool release_shared_object(void* object) noexcept { return drop_shared_object(static_cast<PyObject*>(object)); }
inline void* object_itself(void* object) noexcept { return object; }

inline void* first_of_tuple(void* tuple) noexcept { return PyTuple_GET_ITEM(static_cast<PyObject*>(tuple), 0); }
inline void* new_reference_to_first(void* tuple) noexcept { return new_reference(first_of_tuple(tuple)); }

inline void release_buffer_here(void* view) { end_buffer(*static_cast<Py_buffer*>(view)); }
inline void release_buffer(void* view) {
    const InterpreterAccess way =
        ISTHMUS_LIKELY(runs_our_interpreter()) ? InterpreterAccess::here : interpreter_access();
    if (ISTHMUS_LIKELY(way != InterpreterAccess::another)) return release_by(way, release_buffer_here, view);
    // The view is released with its block, or with the call that borrowed it.
    auto* copy = new (std::nothrow) Py_buffer;
    if (copy == nullptr) return;
    move_buffer(*copy, *static_cast<Py_buffer*>(view));
    release_with_gil(
        [](void* last) {
            release_buffer_here(last);
            delete static_cast<Py_buffer*>(last);
        },
        copy);
}
inline void* source_of_buffer(void* view) noexcept { return static_cast<Py_buffer*>(view)->obj; }
inline void* array_of_buffer(void* view) noexcept { return new_reference(source_of_buffer(view)); }

/// If the interpreter is no longer available the root is kept too, since the object that shows it is.
inline void drop_wrapped_root(void* owner) {
    release_with_gil(
        [](void* held) {
            auto* root = static_cast<Block*>(held);
            count_shared(root->wrapper_aliases, std::uint32_t(-1));
            Py_DECREF(wrapper_of(root));
            drop(root);
        },
        owner);
}
inline void* source_of_alias(void* owner) noexcept { return wrapper_of(static_cast<Block*>(owner)); }
inline void* wrapped_root(void* owner) noexcept { return Py_XNewRef(source_of_alias(owner)); }

/// A share of a block: one of our tensors, or a copy made for this import.
inline constexpr OwnerOps shared_block_ops{.release = drop_root};

/// A protocol's handle, and the Python object it came from: the memory needs only the first, the return of the same
/// object needs the second.
struct Sourced {
    void* owner;
    const OwnerOps* ops;  ///< of that owner
    PyObject* source;

    static void end(void* self) {
        auto* s = static_cast<Sourced*>(self);
        if (s->ops->release != nullptr) s->ops->release(s->owner);
        drop_object(s->source);
    }
    static bool end_shared(void* self) noexcept {
        const auto* s = static_cast<Sourced*>(self);
        if (s->ops->release_shared == nullptr || !runs_our_interpreter() || may_be_last(s->source)) return false;
        if (!s->ops->release_shared(s->owner)) return false;
        if (!drop_if_still_not_last(s->source)) drop_object(s->source);  // another thread was faster
        return true;
    }
    static void* source_of(void* self) noexcept { return static_cast<Sourced*>(self)->source; }
    static void* array_of(void* self) noexcept { return new_reference(source_of(self)); }
};

inline void leave_owner(void*) noexcept {}
inline bool leave_to_release(void*) noexcept { return false; }
inline void* no_object_left(void*) noexcept { return nullptr; }
/// C++ memory is released in any session, a protocol's handle only while no interpreter runs: its release may use
/// Python.
inline void leave_source(void* self) {
    const auto* s = static_cast<Sourced*>(self);
    if (s->ops->release != nullptr && (s->ops == &shared_block_ops || Py_IsInitialized() == 0))
        s->ops->release(s->owner);
}

/// Framework::tensor, whose header stands above this one.
inline constexpr std::uint32_t tensor_framework = 1;

/// How owners that hold references to Python objects are used, in one interpreter session. A reference says nothing of
/// the session that it belongs to, and the next interpreter may neither read nor release what another has left: when it
/// ends, the whole table is changed so that the blocks that still refer to it do neither. So each session has its own
/// table.
struct PythonOwners : SessionBound {
    /// The PyObject whose memory it is, a strong reference.
    OwnerOps array_object{.release = release_object,
                          .source = object_itself,
                          .array = new_reference,
                          .release_shared = release_shared_object};
    /// A PyObject that only keeps the memory alive.
    OwnerOps keeper_object{.release = release_object, .source = object_itself, .release_shared = release_shared_object};
    /// A tuple of the PyObject whose memory it is and what is kept with it. The tuple must be hidden from the collector
    /// (PyObject_GC_UnTrack), which then counts the tuple's reference to the object as the owner's.
    OwnerOps object_tuple{.release = release_object,
                          .source = first_of_tuple,
                          .array = new_reference_to_first,
                          .release_shared = release_shared_object};
    /// A Py_buffer; its `obj` is the PyObject.
    OwnerOps buffer{.release = release_buffer, .source = source_of_buffer, .array = array_of_buffer};
    OwnerOps sourced{.release = Sourced::end,
                     .source = Sourced::source_of,
                     .array = Sourced::array_of,
                     .release_shared = Sourced::end_shared};
    /// The same, if the tensor was not made from the object itself: an instance one of whose members is the memory.
    OwnerOps kept_with_object{
        .release = Sourced::end, .source = Sourced::source_of, .release_shared = Sourced::end_shared};
    /// An alias that also holds the isthmus.Tensor that shows its root.
    OwnerOps wrapper_alias{.release = drop_wrapped_root, .source = source_of_alias};
    /// The same, of a tensor that was made from that isthmus.Tensor, when it was exported.
    OwnerOps exit{
        .framework = tensor_framework, .release = drop_wrapped_root, .source = source_of_alias, .array = wrapped_root};

    /// The content of a capsule, which was given without an object.
    OwnerOps managed_versioned{.release = end_managed_in_python<DLManagedTensorVersioned>};
    OwnerOps managed_legacy{.release = end_managed_in_python<DLManagedTensor>};
    template <class Managed>
    const OwnerOps& managed() const noexcept {
        if constexpr (std::is_same_v<Managed, DLManagedTensor>)
            return managed_legacy;
        else
            return managed_versioned;
    }

    bool over = false;
    PythonOwners* earlier = nullptr;  ///< blocks that outlived a session refer to its table as long as the process runs

    constexpr PythonOwners() noexcept : SessionBound{end_all} {}

private:
    static void end(OwnerOps& ops, void (*leave)(void*)) noexcept {
        // Other threads may drop blocks at this moment, between asking whether there is a function and calling it: none
        // is taken away, all are replaced.
        const auto replace = [](auto*& function, auto* by) {
            if (function != nullptr) AtomicRef(function).store_relaxed(by);
        };
        replace(ops.release_shared, &leave_to_release);
        replace(ops.release, leave);
        replace(ops.source, &no_object_left);
        replace(ops.array, &no_object_left);
    }
    static void end_all(SessionBound* self) noexcept {
        auto* owners = static_cast<PythonOwners*>(self);
        for (OwnerOps* ops : {&owners->array_object, &owners->keeper_object, &owners->object_tuple, &owners->buffer,
                              &owners->wrapper_alias, &owners->exit})
            end(*ops, leave_owner);
        for (OwnerOps* ops : {&owners->sourced, &owners->kept_with_object}) end(*ops, leave_source);
        end(owners->managed_versioned, leave_managed<DLManagedTensorVersioned>);
        end(owners->managed_legacy, leave_managed<DLManagedTensor>);
        owners->over = true;
    }
};
ISTHMUS_STATE constinit PythonOwners first_session_owners;
ISTHMUS_STATE constinit PythonOwners* python_owners = &first_session_owners;

/// Makes the owners of this session those that new blocks get, until end_session(). False when memory is out. The mutex
/// of interpreter_session is held.
ISTHMUS_COLD inline bool begin_python_owners() noexcept {
    if (python_owners->begun) return true;
    if (python_owners->over) {
        auto* owners = new (std::nothrow) PythonOwners;
        if (owners == nullptr) return false;
        owners->earlier = python_owners;
        python_owners = owners;
    }
    bind_to_session(*python_owners);
    return true;
}

/// Another block over the memory of `block`, which holds `object` as well; NULL when memory is out. The GIL is held.
inline Block* block_kept_with(Block* block, PyObject* object) noexcept {
    Block* made = allocate_block(block->dl.ndim, sizeof(Sourced));
    if (ISTHMUS_UNLIKELY(made == nullptr)) return nullptr;
    describe(made, block->dl, block->flags & (flag::dlpack_known | ordering_flags | tracked_flag));
    made->stream = block->stream;
    Block* root = root_of(block);
    retain(root);
    made->owner = ::new (made->dims() + 2 * block->dl.ndim)
        Sourced{root, &shared_block_ops, static_cast<PyObject*>(new_reference(object))};
    made->ops = &python_owners->kept_with_object;
    return announce(made);
}

/// Makes this shared object ready in the running interpreter. False with a Python exception set.
ISTHMUS_COLD inline bool start_session() {
    PyInterpreterState* here = PyInterpreterState_Get();
    PyInterpreterState* ours = interpreter_session.interpreter.load_relaxed();
    if (ours == here) return true;
    if (ours != nullptr) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "isthmus is already in use in another interpreter of this process; subinterpreters are not supported, "
            "use a process of its own");
        return false;
    }
    // This may run Python code, during which another thread may get this far; what follows runs none.
    const Ref atexit_register = find_atexit();
    if (!atexit_register) return false;
    const StateLock lock(interpreter_session.mutex);
    if (is_this_session()) return true;
    allow_interpreter_guards();
    if (!begin_python_owners()) return PyErr_NoMemory() != nullptr;
    // The interpreter and its objects call this code until they end, also if a program closes its library (dlclose).
    keep_library(&interpreter_session);
    if (!hook_the_end(atexit_register.get()) || !join_interpreter(here)) return false;
    interpreter_session.interpreter.store(here);
    return true;
}

}  // namespace detail

ISTHMUS_END
