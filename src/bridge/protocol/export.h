// Common to every export: memory that autograd tracks, the object to be held, the consumer's stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>
#include <isthmus/core/tensor.h>
#include "../runtime/shared_runtime.h"
#include "dlpack_method/call.h"

ISTHMUS_BEGIN

namespace detail {

/// Of a block with tracked_flag: a writable alias of it would be written behind autograd's back, and a result has no
/// gradient.
inline constexpr const char* tracked_memory =
    "the memory is that of a torch tensor that requires grad, or has a tangent; take x.detach() of the tensor, or "
    "torch.autograd.forward_ad.unpack_dual(x).primal, and hand over that";

/// True with a Python exception set if an unknown consumer must not have the memory, since it might write there.
inline bool refuse_tracked(const Block* block) noexcept {
    if (ISTHMUS_LIKELY((block->flags & tracked_flag) == 0)) return false;
    surviving_exit([] { set_python_error(Error(ErrorCode::requires_grad, tracked_memory)); });
    return true;
}

static_assert(tensor_framework == static_cast<std::uint32_t>(Framework::tensor));

/// Whether an export of a block must hold the isthmus.Tensor that shows it: if nothing keeps the memory, the caller who
/// is responsible for it may have tied it to that object (a binder's keep_alive).
inline bool export_needs_wrapper(const Block* block) noexcept {
    return (block->flags & (unowned_flag | wrapper_alias_flag)) == unowned_flag &&
           wrapper_of(root_of(block)) != nullptr;
}

/// The block that is exported from an isthmus.Tensor, during the export: its own, or an alias that holds the object.
class ExportGuard {
public:
    explicit ExportGuard(Block* shown) noexcept : block_(shown) {
        if (ISTHMUS_UNLIKELY(shown->flags & unowned_flag) && export_needs_wrapper(shown)) hold(shown);
    }
    /// NULL when memory is out.
    Block* block() const noexcept { return block_; }

private:
    ISTHMUS_NOINLINE void hold(Block* shown) noexcept {
        block_ = alias_wrapped_block(shown, shown->dl, shown->flags & flag::dlpack_known, python_owners->exit);
        alias_ = Tensor::steal(block_);
    }

    Block* block_;
    Tensor alias_;
};

/// The stream of the work on a block's memory, if no producer has to be asked.
inline std::int64_t stream_of(const Block* block) noexcept {
    return (block->flags & stream_flag) ? block->stream.number : legacy_stream(block->dl.device);
}
ISTHMUS_COLD inline Error explain_order(const Block* block, std::int64_t after) {
    return make_error(ErrorCode::producer_failed, ErrorKind::buffer,
                      explain_order(block->dl.device, stream_of(block), after));
}

/// Makes a consumer's stream (-1: none) wait for the work on a block's memory. False with a Python exception set.
ISTHMUS_NOINLINE inline bool order_on_device(const Block* block, std::int64_t after) {
    if (after == -1) return true;
    if (block->flags & producer_flag) {
        if (request_order(static_cast<PyObject*>(block->stream.producer), after)) return true;
        set_python_error(error_from_exception(ErrorCode::producer_failed, nullptr, "__dlpack__() of the producer"));
        return false;
    }
    if (order_streams(block->dl.device, stream_of(block), after)) return true;
    set_python_error(explain_order(block, after));
    return false;
}
inline bool order_export(const Block* block, std::int64_t after) {
    return ISTHMUS_LIKELY(!has_streams(block->dl.device.device_type)) || order_on_device(block, after);
}
/// For a consumer that names no stream: the legacy default stream, as with `__dlpack__(stream=None)`.
inline bool order_export(const Block* block) {
    return ISTHMUS_LIKELY(!has_streams(block->dl.device.device_type)) ||
           order_on_device(block, legacy_stream(block->dl.device));
}

/// The error of a function that returns a Result, after order_export() failed.
ISTHMUS_COLD inline Error fail_to_order() {
    return error_from_exception(ErrorCode::producer_failed, nullptr, "ordering the streams");
}

}  // namespace detail

ISTHMUS_END
