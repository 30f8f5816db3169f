// The streams of producers and consumers: their numbers, and how one is made to wait for another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream_driver.h"  // Python.h must come before any standard header

#include <isthmus/core/text.h>

ISTHMUS_BEGIN

namespace detail {

// Streams have the numbers of the array API standard's `__dlpack__(stream=)`: CUDA's 1 is the legacy default stream, 2 the
// per-thread one, and 0 ambiguous; ROCm's 0 is the default stream, and 1 and 2 are invalid. Every other number is an address.

inline bool has_streams(int device_type) noexcept {
    return ISTHMUS_UNLIKELY(device_type != kDLCPU) &&
           (device_type == kDLCUDA || device_type == kDLCUDAManaged || device_type == kDLROCM);
}
inline std::int64_t legacy_stream(Device device) noexcept { return device.type == kDLROCM ? 0 : 1; }
/// The number of a driver's handle, in which NULL is the legacy default stream.
inline std::int64_t stream_number(Device device, const void* handle) noexcept {
    return handle == nullptr ? legacy_stream(device) : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(handle));
}
inline void* stream_handle(std::int64_t number) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

/// What to write in place of this number, for an error; NULL if it may be a stream, or -1 for "order nothing".
inline const char* wanted_stream(Device device, std::int64_t number) noexcept {
    const bool rocm = device.type == kDLROCM;
    if (number < -1) return rocm ? "-1, 0 or a stream's address" : "-1, 1, 2 or a stream's address";
    if (!rocm && number == 0) return "-1, 1, 2 or a stream's address: 0 is ambiguous for CUDA";
    if (rocm && (number == 1 || number == 2)) return "-1, 0 or a stream's address: 1 and 2 name no stream of ROCm";
    return nullptr;
}

/// Makes the work put on `after` from now on wait for the work on `before` so far. False if the driver failed.
///
/// No capture is invalidated. The legacy default stream cannot take part in one, and two captures cannot be merged: the launch
/// of the graph has to order them. If `after` is being captured, work outside the capture cannot be waited for inside it, so
/// the host waits, and the data is ready before the graph runs.
ISTHMUS_NOINLINE inline bool order_streams(Device device, std::int64_t before, std::int64_t after) noexcept {
    if (before == after || after == -1) return true;
    const StreamDriver* driver = driver_of(device);
    if (driver == nullptr) return true;
    const CurrentDevice current(*driver, device.id);
    if (!current) return false;
    void *from = stream_handle(before), *to = stream_handle(after);
    const CaptureState first = CaptureState::of(*driver, from), second = CaptureState::of(*driver, to);
    if (!first.ok || !second.ok) return false;
    if (first.barred || second.barred) return true;
    if (first.capturing && (after == legacy_stream(device) || (second.capturing && first.id != second.id))) return true;
    const StreamEvent event(*driver, from);
    if (!event) return false;
    if (second.capturing && !first.capturing) return wait_on_host(*driver, event.get());
    return driver->stream_wait_event(to, event.get(), 0) == 0;
}

/// The text of the error where order_streams() fails.
ISTHMUS_COLD inline std::string explain_order(Device device, std::int64_t before, std::int64_t after) {
    return concat({"the driver could not order stream ", after, " after stream ", before, " of ", device});
}

/// order_streams() for an event of the producer, which was recorded outside of any capture.
ISTHMUS_NOINLINE inline bool order_event(Device device, void* event, std::int64_t after) noexcept {
    if (after == -1) return true;
    const StreamDriver* driver = driver_of(device);
    if (driver == nullptr) return false;
    if (!has_streams(device.type)) return wait_on_host(*driver, event);  // the host may read pinned memory at once
    const CurrentDevice current(*driver, device.id);
    if (!current) return false;
    const CaptureState state = CaptureState::of(*driver, stream_handle(after));
    if (!state.ok) return false;
    if (state.barred || state.capturing) return wait_on_host(*driver, event);
    return driver->stream_wait_event(stream_handle(after), event, 0) == 0;
}

}  // namespace detail

ISTHMUS_END
