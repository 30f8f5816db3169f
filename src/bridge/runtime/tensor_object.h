// An isthmus.Tensor as the layers below its Python type know it: a Python object that shows a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#include "errors.h"
#include "object_owner.h"
#include "shared_runtime.h"

ISTHMUS_BEGIN

namespace detail {

/// Part of the shared ABI.
struct TensorObject {
    PyObject_HEAD Block* block;  ///< NULL once the garbage collector has cleared it
    PyObject* weak_references;
};

/// The Python object that keeps the memory of this block, borrowed; NULL when none does.
inline PyObject* python_source_of(const Block* block) noexcept { return static_cast<PyObject*>(source_of(block)); }

inline PyObject* object_of_block(Block* block);

/// A new isthmus.Tensor that takes over one reference to the block; NULL with a Python exception set, and the block
/// dropped. The Python types must have been made. `seen` is what hold_wrapper() saw of the block; if another thread has
/// since made an object that shows it, that one is returned.
inline PyObject* new_tensor_object(Block* block, PyObject* seen = nullptr) {
    auto* object = PyObject_GC_New(TensorObject, shared_runtime()->tensor);
    if (ISTHMUS_UNLIKELY(object == nullptr)) {
        drop(block);
        return nullptr;
    }
    object->block = block;
    object->weak_references = nullptr;
    auto* self = reinterpret_cast<PyObject*>(object);
    if (ISTHMUS_UNLIKELY(!show(block, self, seen))) {
        retain(block);  // the object ends with its own reference
        Py_DECREF(self);
        return object_of_block(block);
    }
    note_consumer(block, "isthmus.Tensor");
    // Only an owner in Python can be part of a cycle; the collector need not visit the others.
    if (root_of(block)->ops->source != nullptr) PyObject_GC_Track(object);
    return self;
}

/// The isthmus.Tensor that shows this block, existing or new; takes over one reference to the block. The Python types
/// must have been made.
inline PyObject* object_of_block(Block* block) {
    PyObject* seen = nullptr;
    PyObject* shown = hold_wrapper(block, (*shared_state)->tensor, seen);
    if (shown == nullptr) return new_tensor_object(block, seen);
    drop(block);
    return shown;
}

/// The isthmus.Tensor that shows this block, a new reference; NULL if none does, or none of this session.
inline PyObject* hold_wrapper(Block* block) noexcept {
    if (wrapper_of(block) == nullptr) return nullptr;
    const SharedRuntime* shared = shared_runtime();
    if (shared == nullptr) PyErr_Clear();
    PyObject* seen = nullptr;
    return shared != nullptr ? hold_wrapper(block, shared->tensor, seen) : nullptr;
}

/// alias_block() for Python: also holds the isthmus.Tensor that shows the root, if there is one, so that the garbage
/// collector can follow the references from object to object.
inline Block* alias_wrapped_block(Block* block, const DLTensor& t, Flags flags,
                                  const OwnerOps& ops = python_owners->wrapper_alias) noexcept {
    Block* root = root_of(block);
    PyObject* shown = hold_wrapper(root);
    if (shown == nullptr) return alias_block(block, t, flags);
    Block* alias = alias_block(block, t, flags | wrapper_alias_flag, ops);
    if (alias != nullptr)
        count_shared(root->wrapper_aliases, 1);
    else
        Py_DECREF(shown);
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
