// Import of an isthmus.Tensor: the block itself, shared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include "export.h"

ISTHMUS_BEGIN

namespace detail {

/// The memory on the caller's stream: another block, since the existing one keeps its own stream.
ISTHMUS_NOINLINE inline bool share_on_stream(ImportRequest& request, Block* block) {
    const std::int64_t consumer = request.options.stream;
    if (!accept_stream(request, block->dl.device)) return false;
    if (!order_on_device(block, consumer))
        return request.fail_with_exception(ErrorCode::producer_failed, "ordering the streams");
    request.out.share_flags(block);
    if (request.owning) {
        Block* alias = alias_wrapped_block(block, block->dl, block->flags & flag::dlpack_known);
        if (alias == nullptr) return request.fail_out_of_memory();
        if (consumer != -1) set_stream(alias, consumer);
        request.out.hold_block(alias);
    }
    if (consumer != -1) request.out.set_stream(consumer);
    return true;
}

inline bool import_isthmus_tensor(ImportRequest& request) {
    Block* block = reinterpret_cast<TensorObject*>(request.object)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        return request.fail(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector");
    if (ISTHMUS_UNLIKELY(request.options.require_writable && (block->flags & flag::read_only)))
        return request.fail_read_only();
    if (ISTHMUS_UNLIKELY(block->flags & tracked_flag) && request.options.refuse_grad)
        return request.fail(ErrorCode::requires_grad, tracked_memory);
    request.out.dl() = block->dl;
    if (ISTHMUS_UNLIKELY(request.options.require_writable) && layout::overlaps(block->dl))
        return request.fail_overlap();
    if (ISTHMUS_UNLIKELY(request.options.has_stream()) && has_streams(block->dl.device.device_type))
        return share_on_stream(request, block);
    request.out.share_flags(block);
    if (request.owning) {
        const ExportGuard guard(block);
        if (ISTHMUS_UNLIKELY(guard.block() == nullptr)) return request.fail_out_of_memory();
        retain(guard.block());
        request.out.hold_block(guard.block());
    }
    return true;
}

}  // namespace detail

ISTHMUS_END
