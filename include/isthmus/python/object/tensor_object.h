// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>
#include <isthmus/python/runtime.h>

ISTHMUS_BEGIN

namespace detail {

/// An isthmus.Tensor as CPython sees it. Part of the shared ABI.
struct TensorObject {
    PyObject_HEAD
    Block* block;  ///< NULL once the garbage collector has cleared it
    PyObject* weak_references;
};

/// A new isthmus.Tensor that takes over one reference to the block; NULL with a Python exception set, and the block dropped.
inline PyObject* new_tensor_object(Block* block) {
    SharedRuntime* shared = shared_runtime();
    auto* object = shared != nullptr ? PyObject_GC_New(TensorObject, shared->tensor) : nullptr;
    if (ISTHMUS_UNLIKELY(object == nullptr)) {
        drop(block);
        return nullptr;
    }
    object->block = block;
    object->weak_references = nullptr;
    PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
}

}  // namespace detail

ISTHMUS_END
