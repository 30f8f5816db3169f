// What keeps the memory of an import alive: a Python object, a buffer, or a protocol's own thing beside the object asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/gil.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#include <isthmus/python/borrowed.h>

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

inline void* first_of_tuple(void* tuple) noexcept { return PyTuple_GET_ITEM(static_cast<PyObject*>(tuple), 0); }
inline void* new_reference_to_first(void* tuple) noexcept { return new_reference(first_of_tuple(tuple)); }
/// A tuple of the PyObject whose memory it is and what goes with it. The collector must not see the tuple
/// (PyObject_GC_UnTrack): it then takes the tuple's reference to the object for the owner's.
inline constexpr OwnerOps object_tuple_ops{.release = release_object,
                                           .source = first_of_tuple,
                                           .array = new_reference_to_first,
                                           .release_shared = release_shared_object};

inline void release_buffer_here(void* view) { PyBuffer_Release(static_cast<Py_buffer*>(view)); }
inline void release_buffer(void* view) {
    if (ISTHMUS_LIKELY(way_to_interpreter() != WayToInterpreter::another)) return give_back_with_gil(release_buffer_here, view);
    // The view goes with its block, or with the call that borrowed it.
    auto* copy = new (std::nothrow) Py_buffer;
    if (copy == nullptr) return;
    move_buffer(*copy, *static_cast<Py_buffer*>(view));
    give_back_with_gil(
        [](void* last) {
            release_buffer_here(last);
            delete static_cast<Py_buffer*>(last);
        },
        copy);
}
inline void* source_of_buffer(void* view) noexcept { return static_cast<Py_buffer*>(view)->obj; }
inline void* array_of_buffer(void* view) noexcept { return new_reference(source_of_buffer(view)); }
/// A Py_buffer; its `obj` is the PyObject.
inline constexpr OwnerOps buffer_ops{.release = release_buffer, .source = source_of_buffer, .array = array_of_buffer};

/// A share of a block: one of our own tensors, or a copy made for this import.
inline constexpr OwnerOps shared_block_ops{.release = drop_root};

/// What a protocol gave, and the Python object it came from: the memory needs only the first, the way back wants the second.
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
        if (s->ops->release_shared == nullptr || !runs_our_interpreter() || Py_REFCNT(s->source) <= 1) return false;
        if (!s->ops->release_shared(s->owner)) return false;
        Py_DECREF(s->source);
        return true;
    }
    static void* source_of(void* self) noexcept { return static_cast<Sourced*>(self)->source; }
    static void* array_of(void* self) noexcept { return new_reference(source_of(self)); }
};
inline constexpr OwnerOps sourced_ops{
    .release = Sourced::end, .source = Sourced::source_of, .array = Sourced::array_of, .release_shared = Sourced::end_shared};

}  // namespace detail

ISTHMUS_END
