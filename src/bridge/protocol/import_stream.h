// The last step of importing device memory: the producer's stream is recorded, and the consumer's made to wait for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import_request.h"  // Python.h must come before any standard header

#include "../runtime/streams.h"

ISTHMUS_BEGIN

namespace detail {

/// Refuses a number that names no stream of this device.
ISTHMUS_NOINLINE inline bool accept_named_stream(ImportRequest& request, Device device) {
    const char* wanted = has_streams(device.type) ? wanted_stream(device, request.options.stream) : nullptr;
    if (wanted == nullptr) return true;
    return request.fail(ErrorCode::bad_argument,
                        {"option 'stream': found ", request.options.stream, " for data on ", device, "; wanted ", wanted});
}
inline bool accept_stream(ImportRequest& request, Device device) {
    return ISTHMUS_LIKELY(!request.options.has_stream()) || accept_named_stream(request, device);
}

/// `producer` is the stream that the data is on; no_stream if it is unknown, which is taken for the legacy default stream.
/// `ordered`: the consumer's stream already waits for that work.
ISTHMUS_NOINLINE inline bool settle_device_stream(ImportRequest& request, std::int64_t producer, bool ordered) {
    const Device device = request.out.dl().device;
    if (request.options.has_stream()) {
        if (!accept_stream(request, device)) return false;
        const std::int64_t consumer = request.options.stream;
        const std::int64_t before = producer == no_stream ? legacy_stream(device) : producer;
        if (!ordered && !order_streams(device, before, consumer))
            return request.fail(ErrorCode::producer_failed, explain_order(device, before, consumer));
        if (consumer != -1) producer = consumer;
    }
    if (producer != no_stream) request.out.set_stream(producer, stream_flag);
    return true;
}
inline bool settle_stream(ImportRequest& request, std::int64_t producer, bool ordered = false) {
    return ISTHMUS_LIKELY(!has_streams(request.out.dl().device.device_type)) ||
           settle_device_stream(request, producer, ordered);
}

}  // namespace detail

ISTHMUS_END
