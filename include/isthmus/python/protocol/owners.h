// Owners of an import other than the object asked alone: a tuple of objects, a buffer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/object_owner.h>  // Python.h must come before any standard header

#include <isthmus/python/borrowed.h>
#include <isthmus/python/runtime/buffers.h>

ISTHMUS_BEGIN

namespace detail {

inline void* first_of_tuple(void* tuple) noexcept { return PyTuple_GET_ITEM(static_cast<PyObject*>(tuple), 0); }
inline void* new_reference_to_first(void* tuple) noexcept { return new_reference(first_of_tuple(tuple)); }
/// A tuple of the PyObject whose memory it is and what is kept with it. The tuple must be hidden from the collector
/// (PyObject_GC_UnTrack), which then counts the tuple's reference to the object as the owner's.
inline constexpr OwnerOps object_tuple_ops{.release = release_object,
                                           .source = first_of_tuple,
                                           .array = new_reference_to_first,
                                           .release_shared = release_shared_object};

inline void release_buffer_here(void* view) { end_buffer(*static_cast<Py_buffer*>(view)); }
inline void release_buffer(void* view) {
    const WayToInterpreter way = way_to_interpreter();
    if (ISTHMUS_LIKELY(way != WayToInterpreter::another)) return give_back_by(way, release_buffer_here, view);
    // The view is released with its block, or with the call that borrowed it.
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

}  // namespace detail

ISTHMUS_END
