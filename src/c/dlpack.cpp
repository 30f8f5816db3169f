// DLPack's managed tensors in the C interface.
// SPDX-License-Identifier: Apache-2.0
#include "handle.h"

namespace {

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;

// Takes the managed tensor before it checks `out`, since a call that fails has taken the managed tensor too.
template <class Managed>
isthmus_status from(Managed* managed, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        auto tensor = Tensor::from_dlpack(managed);
        isthmus_c::require(out, "out");
        *out = isthmus_c::hand_out(std::move(tensor).value());
    });
}

template <class Managed>
void give(Managed* managed, Managed** out) {
    if (managed == nullptr) throw Error(ErrorCode::out_of_memory, "no memory for a managed tensor");
    *out = managed;
}

}  // namespace

isthmus_status isthmus_from_dlpack(DLManagedTensorVersioned* managed, isthmus_tensor** out) noexcept {
    return from(managed, out);
}
isthmus_status isthmus_from_dlpack_legacy(DLManagedTensor* managed, isthmus_tensor** out) noexcept {
    return from(managed, out);
}

isthmus_status isthmus_to_dlpack(isthmus_tensor* tensor, DLManagedTensorVersioned** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        give(isthmus_c::share(tensor).to_dlpack(), out);
    });
}

isthmus_status isthmus_to_dlpack_legacy(isthmus_tensor* tensor, DLManagedTensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const Tensor t = isthmus_c::share(tensor);
        if (t.read_only())
            throw Error(ErrorCode::read_only,
                        "argument 'tensor': read-only, which the layout before DLPack 1.0 cannot say; use isthmus_to_dlpack");
        if (t.is_padded() && t.dtype().is_subbyte())
            throw Error(ErrorCode::bad_dtype, "argument 'tensor': padded elements of " + t.dtype().name() +
                                                  ", which the layout before DLPack 1.0 cannot say; use isthmus_to_dlpack");
        give(t.to_dlpack_legacy(), out);
    });
}
