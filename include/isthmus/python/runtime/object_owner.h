// Python objects as the owners of memory: alone, or beside another owner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/gil.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>

ISTHMUS_BEGIN

namespace detail {

inline void* new_reference(void* object) noexcept {
    Py_INCREF(static_cast<PyObject*>(object));
    return object;
}

inline void release_object(void* object) { drop_object(static_cast<PyObject*>(object)); }
inline bool release_shared_object(void* object) noexcept { return drop_shared_object(static_cast<PyObject*>(object)); }
inline void* object_itself(void* object) noexcept { return object; }
/// The PyObject whose memory it is, a strong reference.
inline constexpr OwnerOps array_object_ops{
    .release = release_object, .source = object_itself, .array = new_reference, .release_shared = release_shared_object};
/// A PyObject that only keeps the memory alive.
inline constexpr OwnerOps keeper_object_ops{
    .release = release_object, .source = object_itself, .release_shared = release_shared_object};

/// A share of a block: one of our own tensors, or a copy made for this import.
inline constexpr OwnerOps shared_block_ops{.release = drop_root};

/// What a protocol gave, and the Python object it came from: the memory needs only the first, the way back to the same object
/// needs the second.
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
inline constexpr OwnerOps sourced_ops{
    .release = Sourced::end, .source = Sourced::source_of, .array = Sourced::array_of, .release_shared = Sourced::end_shared};
/// The same, where the tensor was not made from the object itself: an instance one of whose members is the memory.
inline constexpr OwnerOps kept_with_object_ops{
    .release = Sourced::end, .source = Sourced::source_of, .release_shared = Sourced::end_shared};

/// Another block over the memory of `block`, which holds `object` as well; NULL when memory is out. The GIL is held.
inline Block* block_kept_with(Block* block, PyObject* object) noexcept {
    Block* made = allocate_block(block->dl.ndim, sizeof(Sourced));
    if (ISTHMUS_UNLIKELY(made == nullptr)) return nullptr;
    describe(made, block->dl, block->flags & (flag::dlpack_known | ordering_flags | watched_flag));
    made->stream = block->stream;
    Block* root = root_of(block);
    retain(root);
    made->owner = ::new (made->dims() + 2 * block->dl.ndim)
        Sourced{root, &shared_block_ops, static_cast<PyObject*>(new_reference(object))};
    made->ops = &kept_with_object_ops;
    return announce(made);
}

}  // namespace detail

ISTHMUS_END
