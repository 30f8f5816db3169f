// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <isthmus/python/protocol/import_request.h>

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

/// Waits for an event of a producer: on the consumer's stream where it named one. False where that cannot be done.
ISTHMUS_COLD inline bool wait_for_event(Device device, void* event, const ImportOptions& options) noexcept {
    const bool cuda = device.type == kDLCUDA || device.type == kDLCUDAManaged || device.type == kDLCUDAHost;
    if (!cuda || !cuda_driver.load()) return false;
    if (!options.has_stream()) return cuda_driver.event_synchronize(event) == 0;
    auto* stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(options.stream));
    return options.stream == -1 || cuda_driver.stream_wait_event(stream, event, 0) == 0;
}

/// `__cuda_array_interface__` names neither the device nor a wish for ordering: the device is asked of the driver, and the
/// stream on which the producer works (version 3) is waited for, unless it says that there is nothing to wait for.
ISTHMUS_COLD inline bool place_cuda_data(Import& import, DLTensor& t, PyObject* stream) {
    constexpr int device_ordinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    t.device = DLDevice{kDLCUDA, 0};
    const bool driver = cuda_driver.load();
    int ordinal = 0;
    if (driver && t.data != nullptr &&
        cuda_driver.pointer_get_attribute(&ordinal, device_ordinal, reinterpret_cast<std::uintptr_t>(t.data)) == 0)
        t.device.device_id = ordinal;
    if (stream == nullptr) return true;
    const long long number = PyLong_AsLongLong(stream);
    if (PyErr_Occurred() != nullptr || number <= 0) {
        PyErr_Clear();
        return import.fail(
            ErrorCode::bad_argument,
            "__cuda_array_interface__ has an invalid 'stream' (0 is ambiguous); wanted None, 1, 2 or a stream's address");
    }
    // Numba's protocol and the driver agree on 1 (legacy default) and 2 (per-thread default).
    if (driver && cuda_driver.stream_synchronize(reinterpret_cast<void*>(static_cast<std::uintptr_t>(number))) != 0)
        return import.fail(ErrorCode::producer_failed,
                           concat({"the CUDA driver could not wait for stream ", number, " of the producer"}));
    return true;
}

}  // namespace detail

ISTHMUS_END
