// The stream of what is borrowed, and another stream made to wait for the work on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export_stream.h"  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// The stream of the work on a tensor of a device with streams: the legacy default stream where none is known.
inline std::int64_t stream_of(const Borrowed& tensor) noexcept {
    const std::int64_t known = tensor.stream();
    return known != no_stream ? known : legacy_stream(tensor.device());
}

/// Makes a stream wait for the work on a tensor; does nothing for host memory.
ISTHMUS_NOINLINE inline Result<void> order_after(const Borrowed& tensor, std::int64_t after) {
    if (!has_streams(tensor.device().type)) return {};
    if (tensor.flags() & producer_flag) {
        if (ask_producer_to_order(BorrowedBuilder::producer_of(tensor), after)) return {};
        return error_from_exception(ErrorCode::producer_failed, nullptr, "__dlpack__() of the producer");
    }
    if (order_streams(tensor.device(), stream_of(tensor), after)) return {};
    return Error(
        ErrorCode::producer_failed, ErrorKind::buffer,
        concat({"the driver could not order stream ", after, " after stream ", stream_of(tensor), " of ", tensor.device()}));
}

}  // namespace detail

ISTHMUS_END
