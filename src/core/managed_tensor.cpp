// DLPack's managed tensors, both ways: checked and taken over, and made from a block.
// SPDX-License-Identifier: Apache-2.0
#include "managed_tensor.h"

ISTHMUS_BEGIN

template void detail::end_owner_managed<DLManagedTensorVersioned>(void*) noexcept;
template void detail::end_owner_managed<DLManagedTensor>(void*) noexcept;

Result<Tensor> Tensor::from_dlpack(DLManagedTensorVersioned* managed) { return detail::take_managed(managed); }
Result<Tensor> Tensor::from_dlpack(DLManagedTensor* managed) { return detail::take_managed(managed); }

// IS_COPIED promises that the receiver is the only owner. A handle may be shared, so only code that makes a copy sets
// it.
DLManagedTensorVersioned* Tensor::to_dlpack() const noexcept {
    return detail::Export<DLManagedTensorVersioned>::make(block_, block_->flags & ~flag::copied);
}
DLManagedTensor* Tensor::to_dlpack_legacy() const noexcept {
    const bool needs_flags = read_only() || (is_padded() && dtype().is_subbyte());
    return needs_flags ? nullptr : detail::Export<DLManagedTensor>::make(block_, 0);
}

ISTHMUS_END
