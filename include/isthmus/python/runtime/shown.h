// The isthmus.Tensor that shows a block, to which the block has no reference: found, set and removed by any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#if defined(Py_GIL_DISABLED)
#include <sched.h>
#endif

ISTHMUS_BEGIN

namespace detail {

#if defined(Py_GIL_DISABLED)

// The object dies when its last reference is dropped, on any thread, and is freed after it was removed from the block. So a
// thread that finds it there locks it in place, by the lowest bit of the pointer, while it increments the object's count.

inline constexpr std::uintptr_t held_bit = 1;
inline PyObject* without_held_bit(void* shown) noexcept {
    return reinterpret_cast<PyObject*>(reinterpret_cast<std::uintptr_t>(shown) & ~held_bit);
}
/// Waits while another thread, which may have been stopped halfway, holds the pointer.
inline void wait_for_shown(int& tries) noexcept {
    if (++tries > 64) sched_yield();
}

/// The object that shows the block, borrowed; the caller must hold it already.
inline PyObject* shown_object(const Block* block) noexcept { return without_held_bit(block->shown_by.load_acquire()); }

/// The same as a new reference; NULL if there is none of this type, or one that is about to die. The type is that of this
/// session: an object that an earlier session left behind is not returned. `seen` is the one found, for show().
inline PyObject* hold_shown(Block* block, const PyTypeObject* type, PyObject*& seen) noexcept {
    void* now = block->shown_by.load_acquire();
    for (int tries = 0;; wait_for_shown(tries)) {
        seen = without_held_bit(now);
        if (seen == nullptr) return nullptr;
        void* free = seen;
        auto* held = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(seen) | held_bit);
        if (block->shown_by.compare_exchange(free, held)) break;
        now = free;
    }
    const bool alive = Py_TYPE(seen) == type && try_reference(seen);
    block->shown_by.store(seen);
    return alive ? seen : nullptr;
}
/// Makes a new object show the block, in place of what hold_shown() saw; false if another thread was faster.
inline bool show(Block* block, PyObject* object, PyObject* seen) noexcept {
    let_others_try(object);
    void* expected = seen;
    return block->shown_by.compare_exchange(expected, object);
}
/// From here on the block is shown by another object or by none.
inline void hide(Block* block, PyObject* object) noexcept {
    void* expected = object;
    for (int tries = 0; !block->shown_by.compare_exchange(expected, nullptr); wait_for_shown(tries)) {
        if (without_held_bit(expected) != object) return;
        expected = object;
    }
}

#else

inline PyObject* shown_object(const Block* block) noexcept { return static_cast<PyObject*>(block->shown_by.load_relaxed()); }
/// A new reference to the object that shows the block; NULL if there is none of this type, which is that of this session: an
/// object that an earlier session left behind is not returned. One that is about to die is not revived, whichever extension's
/// code destroys it.
inline PyObject* hold_shown(Block* block, const PyTypeObject* type, PyObject*& seen) noexcept {
    seen = shown_object(block);
    if (seen == nullptr || ISTHMUS_UNLIKELY(Py_REFCNT(seen) == 0 || Py_TYPE(seen) != type)) return nullptr;
    return Py_NewRef(seen);
}
inline bool show(Block* block, PyObject* object, PyObject*) noexcept {
    block->shown_by.store_relaxed(object);
    return true;
}
inline void hide(Block* block, PyObject* object) noexcept {
    if (shown_object(block) == object) block->shown_by.store_relaxed(nullptr);
}

#endif

}  // namespace detail

ISTHMUS_END
