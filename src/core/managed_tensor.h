// DLPack's managed tensors, both ways: checked and taken over, and made from a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>

#include "validate.h"

ISTHMUS_BEGIN

namespace detail {

template <class Managed>
struct Export;

/// Calls the deleter of a managed tensor, of either layout, as the specification asks: once, and only when there is
/// one.
template <class Managed>
void end_managed(Managed* managed) noexcept {
    if (managed->deleter == nullptr) return;
    if (managed->deleter == Export<Managed>::end)
        return Export<Managed>::end(managed);  // which guards what it calls itself
    run_deleter([managed] { managed->deleter(managed); });
}

template <class Managed>
void end_owner_managed(void* owner) noexcept {
    end_managed(static_cast<Managed*>(owner));
}

inline bool version_is_readable(const DLPackVersion& version) noexcept { return version.major == DLPACK_MAJOR_VERSION; }

inline Flags managed_flags(const DLManagedTensorVersioned* m) noexcept { return m->flags; }
inline Flags managed_flags(const DLManagedTensor*) noexcept { return 0; }

/// True when the managed tensor can be trusted. Of another major version only the version and the deleter are read.
inline bool is_acceptable(const DLManagedTensorVersioned* m) noexcept {
    return m != nullptr && version_is_readable(m->version) && is_sound(m->dl_tensor, m->flags);
}
inline bool is_acceptable(const DLManagedTensor* m) noexcept { return m != nullptr && is_sound(m->dl_tensor, 0); }

ISTHMUS_COLD inline Error explain_unacceptable(const DLManagedTensorVersioned* m, const char* argument) {
    if (m == nullptr) return make_error(ErrorCode::bad_capsule, argument, "the DLManagedTensorVersioned is NULL");
    if (!version_is_readable(m->version))
        return make_error(ErrorCode::unsupported_version, argument,
                          {"the tensor has DLPack version ", m->version.major, ".", m->version.minor,
                           "; expected major version ", DLPACK_MAJOR_VERSION});
    return explain_unsound(m->dl_tensor, m->flags, argument);
}
ISTHMUS_COLD inline Error explain_unacceptable(const DLManagedTensor* m, const char* argument) {
    if (m == nullptr) return make_error(ErrorCode::bad_capsule, argument, "the DLManagedTensor is NULL");
    return explain_unsound(m->dl_tensor, 0, argument);
}

/// The address that an export shows. Without elements it may be NULL, of which torch never calls the deleter, so that
/// the owner would stay for good: it is replaced by one at which no page is, and which every alignment fits. A handle
/// stays as it is.
inline void* exported_data(const DLTensor& t) noexcept {
    if (ISTHMUS_LIKELY(t.data != nullptr) || Device(t.device).is_opaque()) return t.data;
    return reinterpret_cast<void*>(std::uintptr_t{4096});
}

/// One export: the managed tensor, with a copy of sizes and strides since some consumers write to them.
template <class Managed>
struct Export {
    Managed managed;
    Block* block;

    static void end(Managed* self) {
        auto* e = reinterpret_cast<Export*>(self);
        drop(e->block);
        std::free(e);
    }
    /// The block behind a managed tensor that comes back to the shared object that exported it; NULL behind any other.
    static Block* block_of(const Managed* managed) noexcept {
        return managed->deleter == end ? reinterpret_cast<const Export*>(managed)->block : nullptr;
    }
    static Managed* make(Block* block, Flags flags) noexcept {
        Managed* made = make_of_reference(block, flags);
        if (ISTHMUS_LIKELY(made != nullptr)) retain(block);
        return made;
    }
    /// Takes over one reference to the block, unless this is NULL.
    static ISTHMUS_ALWAYS_INLINE Managed* make_of_reference(Block* block, Flags flags) noexcept {
        const auto ndim = static_cast<std::size_t>(block->dl.ndim);
        auto* out = static_cast<Export*>(std::malloc(sizeof(Export) + 2 * ndim * sizeof(std::int64_t)));
        if (ISTHMUS_UNLIKELY(out == nullptr)) return nullptr;
        auto* dims = reinterpret_cast<std::int64_t*>(out + 1);
        for (std::size_t i = 0; i < ndim; ++i) {
            dims[i] = block->dl.shape[i];
            dims[ndim + i] = block->dl.strides[i];
        }
        const DLTensor& t = block->dl;
        out->managed.dl_tensor = {exported_data(t), t.device, t.ndim, t.dtype, dims, dims + ndim, t.byte_offset};
        out->managed.manager_ctx = out;  // never NULL: some consumers leak when it is
        out->managed.deleter = end;
        if constexpr (requires { out->managed.version; }) {
            out->managed.version = DLPackVersion{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
            out->managed.flags = flags & flag::dlpack_known;
        }
        out->block = block;
        return &out->managed;
    }
};

/// A block that owns a managed tensor already found acceptable; NULL (and nothing taken) when memory is out. A tensor
/// that was exported here becomes an alias of the exported block, so that repeated round trips build no chain.
template <class Managed>
Block* adopt_managed(Managed* managed, Flags extra = 0) noexcept {
    Block* exported = Export<Managed>::block_of(managed);
    // If the exported block keeps no memory alive, the export may hold more than the block: the object that it was
    // exported from. An alias would lose that.
    if (exported != nullptr && (exported->flags & unowned_flag) == 0) {
        Block* alias = alias_block(exported, managed->dl_tensor, managed_flags(managed) | extra);
        if (alias != nullptr) end_managed(managed);
        return alias;
    }
    Block* block = allocate_block(managed->dl_tensor.ndim);
    if (ISTHMUS_UNLIKELY(block == nullptr)) return nullptr;
    describe(block, managed->dl_tensor, managed_flags(managed) | extra);
    block->owner = managed;
    block->ops = &plain_owner_ops<end_owner_managed<Managed>, true>;
    return announce(block);
}

template <class Managed>
Result<Tensor> take_managed(Managed* managed) {
    if (ISTHMUS_UNLIKELY(!is_acceptable(managed))) {
        const struct End {  // also when no memory is left for the error's text
            Managed* managed;
            ~End() {
                if (managed != nullptr) end_managed(managed);
            }
        } end{managed};
        return explain_unacceptable(managed, nullptr);
    }
    Block* block = adopt_managed(managed);
    if (block == nullptr) {
        end_managed(managed);
        return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    }
    return Tensor::steal(block);
}

}  // namespace detail

ISTHMUS_END
