// What is said of memory that automatic differentiation watches, wherever it is refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/raise.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>

ISTHMUS_BEGIN

namespace detail {

/// Of a block with watched_flag: a writable alias of it would be written behind autograd's back, and a result has no gradient.
inline constexpr const char* watched_memory =
    "the memory is that of a torch tensor that requires grad, or has a tangent; take x.detach() of the tensor, or "
    "torch.autograd.forward_ad.unpack_dual(x).primal, and hand over that";

/// True with a Python exception set where a consumer that nobody knows must not have the memory, since it might write there.
inline bool refuse_watched(const Block* block) noexcept {
    if (ISTHMUS_LIKELY((block->flags & watched_flag) == 0)) return false;
    surviving_exit([] { set_python_error(Error(ErrorCode::requires_grad, watched_memory)); });
    return true;
}

}  // namespace detail

ISTHMUS_END
