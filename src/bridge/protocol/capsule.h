// DLPack's capsules (dlpack, "Python specification"): their names, export and import.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <cstring>

#include <isthmus/core/config.h>
#include <isthmus/python/api.h>
#include "../../core/managed_tensor.h"
#include "../runtime/shared_runtime.h"
#include "import_request.h"

ISTHMUS_BEGIN

namespace detail {

inline constexpr const char* capsule_name = "dltensor";
inline constexpr const char* capsule_name_used = "used_dltensor";
inline constexpr const char* capsule_name_versioned = "dltensor_versioned";
inline constexpr const char* capsule_name_versioned_used = "used_dltensor_versioned";

/// The destructor of a capsule that nobody consumed: ends what it still owns. A consumed one has another name.
template <class Managed>
void end_capsule(PyObject* capsule) {
    constexpr bool versioned = requires(Managed& m) { m.version; };
    constexpr const char* name = versioned ? capsule_name_versioned : capsule_name;
    // By the address of the name, which others can only have from here, and by its text if they made their own.
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

/// A versioned capsule over a share of the block; NULL with a Python exception set. `extra` are flags for this export
/// alone.
inline PyObject* versioned_capsule(Block* block, Flags extra = 0) {
    return wrap_managed(Export<DLManagedTensorVersioned>::make(block, (block->flags & ~flag::copied) | extra));
}
/// The same for a reference that is passed on, also if this is NULL.
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

/// Borrows from an owner that was already checked: the descriptor is the managed tensor's own.
template <class Managed>
bool import_managed(ImportRequest& request, Managed* managed) {
    request.out.hold(managed, python_owners->managed<Managed>());
    request.out.dl() = managed->dl_tensor;
    return request.accept_sound(managed_flags(managed));
}

inline bool point_capsule_to(PyObject* capsule, void* pointer) noexcept {
    const ObjectLock lock(capsule);
    return PyCapsule_SetPointer(capsule, pointer) == 0;
}

/// Replaces a managed tensor that this shared object exported by an alias of the block behind it: the garbage collector
/// sees whose memory it is, and round trips build no chain. The capsule points to the root from then on.
template <class Managed>
bool share_exported(ImportRequest& request, Managed* managed, Block* exported) {
    Block* alias = alias_wrapped_block(exported, managed->dl_tensor, request.out.flags());
    if (alias == nullptr) return request.fail_out_of_memory();
    point_capsule_to(request.object, root_of(alias));
    end_managed_in_python<Managed>(managed);
    request.out.hold_block(alias);
    return true;
}

inline bool is_of_another_major(const DLManagedTensorVersioned* m) noexcept { return !version_is_readable(m->version); }
inline bool is_of_another_major(const DLManagedTensor*) noexcept { return false; }

/// Takes what the capsule holds, once, however many threads try; NULL if it no longer has this name. Comes before
/// anything else: what another thread may release at any moment must not be read.
template <class Managed>
Managed* claim_capsule(PyObject* capsule, const char* name, const char* used) noexcept {
    const ObjectLock lock(capsule);
    void* managed = PyCapsule_GetPointer(capsule, name);
    if (ISTHMUS_LIKELY(managed != nullptr))
        PyCapsule_SetName(capsule, used);
    else
        PyErr_Clear();
    return static_cast<Managed*>(managed);
}
/// Rolls back the claim of a capsule that was then refused: it belongs to the producer again, or to another consumer.
inline bool unclaim_capsule(PyObject* capsule, const char* name) noexcept {
    const ObjectLock lock(capsule);
    return PyCapsule_SetName(capsule, name) == 0;
}

ISTHMUS_COLD inline bool refuse_consumed(ImportRequest& request, const char* name) {
    return request.fail(ErrorCode::consumed_capsule,
                        {"the capsule is '", name, "': it was consumed before; ask the producer for a new one"});
}

/// Imports what was claimed. False with the error left in the request, and nothing held.
template <class Managed>
bool hold_claimed(ImportRequest& request, PyObject* capsule, Managed* managed) {
    request.out.dl() = managed->dl_tensor;
    if (!request.accept_sound(managed_flags(managed)) || !accept_stream(request, managed->dl_tensor.device))
        return false;
    // A capsule that a producer's method returned comes with its object, which already is the source.
    if (Block* exported = request.owning && capsule == request.object ? Export<Managed>::block_of(managed) : nullptr)
        return share_exported(request, managed, exported);
    request.out.hold(managed, python_owners->managed<Managed>());
    return true;
}

/// `name` is the capsule's own.
template <class Managed>
bool consume_capsule(ImportRequest& request, PyObject* capsule, const char* name, const char* used) {
    auto* managed = claim_capsule<Managed>(capsule, name, used);
    if (ISTHMUS_UNLIKELY(managed == nullptr)) return refuse_consumed(request, used);
    if (ISTHMUS_UNLIKELY(!is_acceptable(managed)) &&
        !request.may_copy_despite(explain_unacceptable(managed, nullptr))) {
        Error error = explain_unacceptable(managed, request.options.argument);
        // Of another major version only the deleter may be used, and it must be (dlpack.h, DLPackVersion). Otherwise
        // the capsule stays its producer's, whose destructor ends it.
        if (is_of_another_major(managed))
            end_managed_in_python<Managed>(managed);
        else
            unclaim_capsule(capsule, name);
        return request.fail(std::move(error));
    }
    return hold_claimed(request, capsule, managed) || (unclaim_capsule(capsule, name), false);
}

/// Whether the capsule was taken and points to `owner`; `versioned` says of which kind it is.
inline bool was_taken(PyObject* capsule, const void* owner, bool& versioned) noexcept {
    const ObjectLock lock(capsule);
    versioned = PyCapsule_IsValid(capsule, capsule_name_versioned_used) != 0;
    if (!versioned && !PyCapsule_IsValid(capsule, capsule_name_used)) return false;
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)) == owner;
}
inline bool make_whole(PyObject* capsule, bool versioned) noexcept {
    return unclaim_capsule(capsule, versioned ? capsule_name_versioned : capsule_name);
}

/// Undoes an import of this capsule if `owner` is what it held: the capsule can then be consumed again. False if it
/// stays taken.
inline bool restore_capsule(PyObject* capsule, const void* owner) noexcept {
    bool versioned = false;
    return was_taken(capsule, owner, versioned) && make_whole(capsule, versioned);
}
/// restore_capsule() for what share_exported() made: the capsule holds the alias.
inline bool release_alias(PyObject* capsule, Block* alias) noexcept {
    bool versioned = false;
    if (!was_taken(capsule, root_of(alias), versioned)) return false;
    void* managed = versioned ? static_cast<void*>(Export<DLManagedTensorVersioned>::make(alias, alias->flags))
                              : static_cast<void*>(Export<DLManagedTensor>::make(alias, 0));
    return managed != nullptr && point_capsule_to(capsule, managed) && make_whole(capsule, versioned);
}

/// NULL, without a Python exception, if it has none.
inline const char* name_of_capsule(PyObject* capsule) noexcept {
    const ObjectLock lock(capsule);
    const char* name = PyCapsule_GetName(capsule);
    if (name == nullptr) PyErr_Clear();
    return name;
}

/// A DLPack capsule of either kind; taken once, and renamed as the specification says (dlpack, "Python specification").
inline bool consume_any_capsule(ImportRequest& request, PyObject* capsule) {
    const char* name = name_of_capsule(capsule);
    if (name == nullptr)
        return request.fail(ErrorCode::bad_capsule,
                            "the capsule has no name; expected 'dltensor_versioned' or 'dltensor'");
    if (std::strcmp(name, capsule_name_versioned) == 0)
        return consume_capsule<DLManagedTensorVersioned>(request, capsule, capsule_name_versioned,
                                                         capsule_name_versioned_used);
    if (std::strcmp(name, capsule_name) == 0)
        return consume_capsule<DLManagedTensor>(request, capsule, capsule_name, capsule_name_used);
    if (std::strcmp(name, capsule_name_used) == 0 || std::strcmp(name, capsule_name_versioned_used) == 0)
        return refuse_consumed(request, name);
    return request.fail(ErrorCode::bad_capsule,
                        {"the capsule is called '", name, "'; expected 'dltensor_versioned' or 'dltensor'"});
}

/// The producer received no stream, and has made the data ready for the legacy default one.
inline bool import_capsule(ImportRequest& request) {
    if (!consume_any_capsule(request, request.object)) return false;
    if (ISTHMUS_LIKELY(settle_stream(request, no_stream))) return true;
    roll_back(request.object, request.out.b);
    return false;
}

}  // namespace detail

ISTHMUS_END
