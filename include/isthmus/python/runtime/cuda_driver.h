// The CUDA driver that the process has loaded: streams, events, and where an address lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <dlfcn.h>

#include <type_traits>

#include <isthmus/core/device.h>

ISTHMUS_BEGIN

namespace detail {

/// The few functions of the CUDA driver that an exchange needs, from the driver that the process has loaded (cuda.h). Isthmus
/// never loads it by itself: where nobody did, there is no CUDA memory to speak of.
struct CudaDriver {
    int (*pointer_get_attribute)(void*, int, std::uintptr_t) = nullptr;
    int (*stream_synchronize)(void*) = nullptr;
    int (*event_create)(void**, unsigned) = nullptr;
    int (*event_record)(void*, void*) = nullptr;
    int (*event_destroy)(void*) = nullptr;
    int (*event_synchronize)(void*) = nullptr;
    int (*stream_wait_event)(void*, void*, unsigned) = nullptr;

    bool load() noexcept {
        if (stream_synchronize != nullptr) return true;
        void* lib = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
        if (lib == nullptr) return false;
        const auto find = [lib](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(lib, name));
            return function != nullptr;
        };
        return find(pointer_get_attribute, "cuPointerGetAttribute") && find(event_create, "cuEventCreate") &&
               find(event_record, "cuEventRecord") && find(event_destroy, "cuEventDestroy_v2") &&
               find(event_synchronize, "cuEventSynchronize") && find(stream_wait_event, "cuStreamWaitEvent") &&
               find(stream_synchronize, "cuStreamSynchronize");
    }
};
ISTHMUS_STATE CudaDriver cuda_driver;

/// Makes the consumer's stream wait for what is on the legacy default stream, where C++ memory is promised to be ready: what
/// `__dlpack__(stream=)` asks of a producer. Without a driver in the process nothing can be pending.
inline bool order_after_producer(Device device, long long stream) noexcept {
    if ((device.type != kDLCUDA && device.type != kDLCUDAManaged) || stream == 1 || !cuda_driver.load()) return true;
    constexpr unsigned disable_timing = 2;
    void* event = nullptr;
    if (cuda_driver.event_create(&event, disable_timing) != 0) return false;
    auto* consumer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    const bool ok = cuda_driver.event_record(event, nullptr) == 0 && cuda_driver.stream_wait_event(consumer, event, 0) == 0;
    cuda_driver.event_destroy(event);
    return ok;
}

/// Waits for an event of a producer: on the consumer's stream (by DLPack's numbers; -1 for none) where it named one, else here.
/// False where that cannot be done.
ISTHMUS_NOINLINE inline bool wait_for_event(Device device, void* event, const std::int64_t* stream) noexcept {
    const bool cuda = device.type == kDLCUDA || device.type == kDLCUDAManaged || device.type == kDLCUDAHost;
    if (!cuda || !cuda_driver.load()) return false;
    if (stream == nullptr) return cuda_driver.event_synchronize(event) == 0;
    auto* waits = reinterpret_cast<void*>(static_cast<std::uintptr_t>(*stream));
    return *stream == -1 || cuda_driver.stream_wait_event(waits, event, 0) == 0;
}

}  // namespace detail

ISTHMUS_END
