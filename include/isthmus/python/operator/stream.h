// Stream: the queue of a GPU that a device function of an operator puts its work on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/device.h>

ISTHMUS_BEGIN

/// The last parameter of a device function. The memory of its tensors is ready there when the function is called, and whoever
/// uses its results waits for what it put there; it does not wait itself. The device is the current one of the thread. Valid
/// for the length of the call.
class Stream {
public:
    /// The stream `number` of a device.
    constexpr Stream(Device device, std::int64_t number) noexcept : device_(device), number_(number) {}

    /// The device that the stream belongs to.
    constexpr Device device() const noexcept { return device_; }
    /// By the numbers of the array API standard's `__dlpack__(stream=)`: CUDA's 1 is the legacy default stream.
    constexpr std::int64_t number() const noexcept { return number_; }
    /// To be cast to cudaStream_t, CUstream or hipStream_t.
    void* handle() const noexcept { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number_)); }

private:
    Device device_;
    std::int64_t number_;
};

ISTHMUS_END
