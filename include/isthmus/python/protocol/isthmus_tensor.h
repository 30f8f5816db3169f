// Import of an isthmus.Tensor: the block itself, shared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/tensor_object.h>  // Python.h must come before any standard header

#include <isthmus/python/protocol/import_request.h>
#include <isthmus/python/protocol/watched.h>

ISTHMUS_BEGIN

namespace detail {

inline bool import_isthmus_tensor(ImportRequest& request) {
    Block* block = reinterpret_cast<TensorObject*>(request.object)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        return request.fail(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector");
    if (ISTHMUS_UNLIKELY(request.options.require_writable && (block->flags & flag::read_only))) return request.fail_read_only();
    if (ISTHMUS_UNLIKELY(block->flags & watched_flag) && request.options.refuse_grad)
        return request.fail(ErrorCode::requires_grad, watched_memory);
    request.out.dl() = block->dl;
    if (ISTHMUS_UNLIKELY(request.options.require_writable) && layout::overlaps(block->dl)) return request.fail_overlap();
    request.out.flags() = block->flags & flag::dlpack_known;
    if (request.owning) {
        retain(block);
        request.out.hold_block(block);
    }
    return true;
}

}  // namespace detail

ISTHMUS_END
