// Export as a DLPack capsule, of either layout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include "names.h"
#include "../../../core/dlpack.h"

ISTHMUS_BEGIN

namespace detail {

/// The destructor of a capsule that nobody consumed: ends what it still owns. A consumed one has another name.
template <class Managed>
void end_capsule(PyObject* capsule) {
    constexpr bool versioned = requires(Managed& m) { m.version; };
    constexpr const char* name = versioned ? capsule_name_versioned : capsule_name;
    // By the address of the name, which others can only have from here, and by its text where they made their own.
    const char* found = PyCapsule_GetName(capsule);
    if (ISTHMUS_UNLIKELY(found != name) && !PyCapsule_IsValid(capsule, name)) return;
    end_managed(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

template <class Managed>
PyObject* wrap_managed(Managed* managed) {
    constexpr bool versioned = requires { managed->version; };
    if (ISTHMUS_UNLIKELY(managed == nullptr)) return PyErr_NoMemory();
    PyObject* capsule = PyCapsule_New(managed, versioned ? capsule_name_versioned : capsule_name, end_capsule<Managed>);
    if (ISTHMUS_UNLIKELY(capsule == nullptr)) end_managed(managed);
    return capsule;
}

/// The same memory with another device: pinned memory may be called the CPU's too.
template <class Managed>
Managed* on_device(Managed* managed, Device device) noexcept {
    if (ISTHMUS_LIKELY(managed != nullptr)) managed->dl_tensor.device = device;
    return managed;
}

/// A versioned capsule over a share of the block; NULL with a Python exception set. `extra` are flags for this export alone.
inline PyObject* versioned_capsule(Block* block, Flags extra = 0) {
    return wrap_managed(Export<DLManagedTensorVersioned>::make(block, (block->flags & ~flag::copied) | extra));
}
/// The same of a reference that is given away, also where this is NULL.
inline PyObject* versioned_capsule_of_reference(Block* block) {
    using Exported = Export<DLManagedTensorVersioned>;
    auto* managed = Exported::make_of_reference(block, block->flags & ~flag::copied);
    if (ISTHMUS_UNLIKELY(managed == nullptr)) return drop(block), PyErr_NoMemory();
    return wrap_managed(managed);
}
inline PyObject* versioned_capsule(Block* block, Device device) {
    return wrap_managed(on_device(Export<DLManagedTensorVersioned>::make(block, block->flags & ~flag::copied), device));
}

/// Whether a legacy capsule would lose the padding: elements of fewer than 8 bits would be read as packed.
inline bool legacy_loses_padding(const Block* block) noexcept {
    return (block->flags & flag::padded) && DType(block->dl.dtype).is_subbyte();
}

/// A capsule as before DLPack 1.0. The caller has made sure that losing the read-only bit is right.
inline PyObject* legacy_capsule(Block* block) { return wrap_managed(Export<DLManagedTensor>::make(block, 0)); }
inline PyObject* legacy_capsule(Block* block, Device device) {
    return wrap_managed(on_device(Export<DLManagedTensor>::make(block, 0), device));
}

}  // namespace detail

ISTHMUS_END
