// An isthmus.Tensor as the layers below its Python type know it: a Python object that shows a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/raise.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/gil.h>
#include <isthmus/python/runtime/shared_runtime.h>

ISTHMUS_BEGIN

namespace detail {

/// Part of the shared ABI.
struct TensorObject {
    PyObject_HEAD Block* block;  ///< NULL once the garbage collector has cleared it
    PyObject* weak_references;
};

/// The Python object that keeps the memory of this block, borrowed; NULL when none does.
inline PyObject* python_source_of(const Block* block) noexcept { return static_cast<PyObject*>(source_of(block)); }

/// A new isthmus.Tensor that takes over one reference to the block; NULL with a Python exception set, and the block dropped.
/// The Python types must have been made.
inline PyObject* new_tensor_object(Block* block) {
    auto* object = PyObject_GC_New(TensorObject, shared_runtime()->tensor);
    if (ISTHMUS_UNLIKELY(object == nullptr)) {
        drop(block);
        return nullptr;
    }
    object->block = block;
    object->weak_references = nullptr;
    block->shown_by.store_relaxed(object);
    note_consumer(block, "isthmus.Tensor");
    // Only an owner in Python can close a cycle; the collector need not walk past the others.
    if (root_of(block)->ops->source != nullptr) PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
}

/// The isthmus.Tensor that shows this block, the one there is or a new one; takes over one reference to the block.
inline PyObject* object_of_block(Block* block) {
    auto* shown = static_cast<PyObject*>(block->shown_by.load_relaxed());
    // An object that is about to die is not brought back, whichever extension's code ends it.
    if (shown == nullptr || ISTHMUS_UNLIKELY(Py_REFCNT(shown) == 0)) return new_tensor_object(block);
    drop(block);
    return Py_NewRef(shown);
}

/// Where the interpreter cannot be had any more the root stays, since the object that shows it does.
inline void drop_shown_root(void* owner) {
    give_back_with_gil(
        [](void* held) {
            auto* root = static_cast<Block*>(held);
            --root->shown_aliases;
            Py_DECREF(static_cast<PyObject*>(root->shown_by.load_relaxed()));
            drop(root);
        },
        owner);
}
inline constexpr OwnerOps shown_alias_ops{.release = drop_shown_root};

/// alias_block() for Python: holds the isthmus.Tensor that shows the root as well, where there is one, so that the garbage
/// collector can follow from object to object who keeps the memory.
inline Block* alias_shown_block(Block* block, const DLTensor& t, Flags flags, const OwnerOps& ops = shown_alias_ops) noexcept {
    Block* root = root_of(block);
    auto* shown = static_cast<PyObject*>(root->shown_by.load_relaxed());
    if (shown == nullptr || Py_REFCNT(shown) == 0) return alias_block(block, t, flags);
    Block* alias = alias_block(block, t, flags | shown_alias_flag, ops);
    if (alias == nullptr) return nullptr;
    Py_INCREF(shown);
    ++root->shown_aliases;
    return alias;
}

/// The block of an isthmus.Tensor; NULL with a Python exception set when the garbage collector has cleared it.
inline Block* block_of(PyObject* self) {
    Block* block = reinterpret_cast<TensorObject*>(self)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        set_python_error(Error(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector"));
    return block;
}

/// The array object that this block was made from, a new reference; NULL when it was made from none.
inline PyObject* array_of(const Block* block) noexcept {
    return block->ops->array != nullptr ? static_cast<PyObject*>(block->ops->array(block->owner)) : nullptr;
}

}  // namespace detail

ISTHMUS_END
