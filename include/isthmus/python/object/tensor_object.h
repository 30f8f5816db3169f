// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>
#include <isthmus/python/runtime/life.h>

ISTHMUS_BEGIN

namespace detail {

/// An isthmus.Tensor as CPython sees it. Part of the shared ABI.
struct TensorObject {
    PyObject_HEAD Block* block;  ///< NULL once the garbage collector has cleared it
    PyObject* weak_references;
};

/// Makes the Python types (isthmus/python/object/tensor_type.h). An extension that only imports never asks for them, and a
/// linker that drops unused sections then leaves the whole object out of it.
bool make_types(SharedRuntime& shared);
/// The shared part with the Python types made. NULL with a Python exception set.
inline SharedRuntime* shared_types() {
    SharedRuntime* shared = shared_runtime();
    if (ISTHMUS_UNLIKELY(shared != nullptr && shared->tensor == nullptr) && !make_types(*shared)) return nullptr;
    return shared;
}

/// A new isthmus.Tensor that takes over one reference to the block; NULL with a Python exception set, and the block dropped.
inline PyObject* new_tensor_object(Block* block) {
    SharedRuntime* shared = shared_types();
    auto* object = shared != nullptr ? PyObject_GC_New(TensorObject, shared->tensor) : nullptr;
    if (ISTHMUS_UNLIKELY(object == nullptr)) {
        drop(block);
        return nullptr;
    }
    object->block = block;
    object->weak_references = nullptr;
    block->python = object;
    note_consumer(block, "isthmus.Tensor");
    // Only an owner in Python can close a cycle; the collector need not walk past the others.
    if (block->origin != Origin::none && block->origin != Origin::torch_handle && block->origin != Origin::at_tensor)
        PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
}

/// The isthmus.Tensor that shows this block, the one there is or a new one; takes over one reference to the block.
inline PyObject* object_of_block(Block* block) {
    if (block->python == nullptr) return new_tensor_object(block);
    auto* object = static_cast<PyObject*>(block->python);
    Py_INCREF(object);
    drop(block);
    return object;
}

/// The same memory in a block of its own with other flags; NULL when memory is out.
inline Block* alias_block(Block* block, Flags flags) {
    Block* alias = allocate_block(block->dl.ndim);
    if (alias == nullptr) return nullptr;
    describe(alias, block->dl, flags);
    retain(block);
    alias->owner = block;
    alias->release = [](void* parent) { drop(static_cast<Block*>(parent)); };
    return announce(alias);
}

/// For a framework whose arrays are never written but which asks for the legacy form, where read-only cannot be said.
ISTHMUS_COLD inline Block* writable_alias(Block* block) {
    Block* alias = alias_block(block, block->flags & flag::padded);
    if (alias == nullptr) PyErr_NoMemory();
    return alias;
}

/// The block of an isthmus.Tensor; NULL with a Python exception set when the garbage collector has cleared it.
inline Block* block_of(PyObject* self) {
    Block* block = reinterpret_cast<TensorObject*>(self)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        set_python_error(Error(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector"));
    return block;
}

}  // namespace detail

ISTHMUS_END
