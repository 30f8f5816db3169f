// The streams of producers and consumers: the driver that orders them, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "session.h"  // Python.h must come before any standard header

#include <isthmus/core/device.h>
#include <isthmus/core/text.h>
#include "../../core/libraries.h"

ISTHMUS_BEGIN

namespace detail {

/// Functions of libcuda (cuda.h) or libamdhip64 (hip_runtime_api.h), which agree on their parameters.
struct StreamDriver {
    int (*event_create)(void**, unsigned) = nullptr;
    int (*event_record)(void*, void*) = nullptr;
    int (*event_destroy)(void*) = nullptr;
    int (*event_synchronize)(void*) = nullptr;
    int (*stream_wait_event)(void*, void*, unsigned) = nullptr;
    int (*capture_info)(void*, int*, unsigned long long*) = nullptr;
    int (*exchange_mode)(int*) = nullptr;
    int (*pointer_attribute)(void*, int, std::uintptr_t) = nullptr;
    int (*get_device)(int*) = nullptr;
    int (*set_device)(int) = nullptr;              // HIP's
    int (*retain_context)(void**, int) = nullptr;  // this and what follows: CUDA's
    int (*release_context)(int) = nullptr;
    int (*push_context)(void*) = nullptr;
    int (*pop_context)(void**) = nullptr;
    bool complete = false;

    static StreamDriver of_cuda(void* lib) noexcept {
        StreamDriver d;
        d.complete = d.find_common(lib, true) && find_symbol(lib, "cuDevicePrimaryCtxRetain", d.retain_context) &&
                     find_symbol(lib, "cuDevicePrimaryCtxRelease_v2", d.release_context) &&
                     find_symbol(lib, "cuCtxPushCurrent_v2", d.push_context) &&
                     find_symbol(lib, "cuCtxPopCurrent_v2", d.pop_context);
        return d;
    }
    static StreamDriver of_hip(void* lib) noexcept {
        StreamDriver d;
        d.complete = d.find_common(lib, false) && find_symbol(lib, "hipSetDevice", d.set_device);
        return d;
    }

private:
    bool find_common(void* lib, bool cuda) noexcept {
        const auto get = [&](auto& out, const char* of_cuda, const char* of_hip) {
            return find_symbol(lib, cuda ? of_cuda : of_hip, out);
        };
        return get(event_create, "cuEventCreate", "hipEventCreateWithFlags") &&
               get(event_record, "cuEventRecord", "hipEventRecord") &&
               get(event_destroy, "cuEventDestroy_v2", "hipEventDestroy") &&
               get(event_synchronize, "cuEventSynchronize", "hipEventSynchronize") &&
               get(stream_wait_event, "cuStreamWaitEvent", "hipStreamWaitEvent") &&
               get(capture_info, "cuStreamGetCaptureInfo", "hipStreamGetCaptureInfo") &&
               get(exchange_mode, "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode") &&
               get(pointer_attribute, "cuPointerGetAttribute", "hipPointerGetAttribute") &&
               get(get_device, "cuCtxGetDevice", "hipGetDevice");
    }
};

/// The names of the drivers' files.
#if defined(_WIN32)
inline constexpr const char* cuda_files[] = {"nvcuda.dll"};
inline constexpr const char* hip_files[] = {"amdhip64.dll", "amdhip64_7.dll", "amdhip64_6.dll"};
#else
inline constexpr const char* cuda_files[] = {"libcuda.so.1"};
inline constexpr const char* hip_files[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                            "libamdhip64.so.5"};
#endif

/// NULL until the library was found loaded in the process; a driver stays once it is there.
ISTHMUS_STATE Atomic<const StreamDriver*> cuda_driver, hip_driver;

/// From the library that the process has loaded. Isthmus never loads a driver itself: if nobody has loaded one, there
/// is no memory of such a device.
template <auto make, std::size_t count>
const StreamDriver* find_driver(Atomic<const StreamDriver*>& kept, const char* const (&files)[count]) noexcept {
    if (const StreamDriver* known = kept.load_acquire()) return known;
    for (const char* name : files) {
        void* lib = find_library(name);
        if (lib == nullptr) continue;
        static const StreamDriver driver = make(lib);
        if (!driver.complete) return nullptr;
        kept.store(&driver);
        return &driver;
    }
    return nullptr;
}
ISTHMUS_NOINLINE inline const StreamDriver* find_cuda_driver() noexcept {
    return find_driver<StreamDriver::of_cuda>(cuda_driver, cuda_files);
}
ISTHMUS_NOINLINE inline const StreamDriver* find_hip_driver() noexcept {
    return find_driver<StreamDriver::of_hip>(hip_driver, hip_files);
}

/// The loaded driver of a device or of its pinned memory; NULL if there is none, so that no work can be pending there.
inline const StreamDriver* driver_of(Device device) noexcept {
    if (device.type == kDLROCM || device.type == kDLROCMHost) return find_hip_driver();
    const bool cuda = device.type == kDLCUDA || device.type == kDLCUDAManaged || device.type == kDLCUDAHost;
    return cuda ? find_cuda_driver() : nullptr;
}

/// How many modules Python had, and how many libraries the process had loaded, when a driver was looked for and not
/// found.
struct DriverSearch {
    Atomic<Py_ssize_t> modules{-1};
    Atomic<unsigned long long> libraries;
};
ISTHMUS_STATE DriverSearch driver_search;

ISTHMUS_NOINLINE inline bool search_drivers() noexcept {
    unsigned long long libraries = driver_search.libraries.load_relaxed();
    if (!have_libraries_changed(libraries)) return false;
    driver_search.libraries.store_relaxed(libraries);
    return find_cuda_driver() != nullptr || find_hip_driver() != nullptr;
}
/// Whether a driver is loaded in the process; needs the GIL. It is searched again only if something was imported since
/// the last search: asking the linker each time would slow down imports of host memory. A driver that is loaded without
/// any import is found when a type is looked at for the first time, and when memory of a device is met.
inline bool has_driver() noexcept {
    if (cuda_driver.load_relaxed() != nullptr || hip_driver.load_relaxed() != nullptr) return true;
    const Py_ssize_t modules = PyDict_Size(PyImport_GetModuleDict());
    if (ISTHMUS_LIKELY(modules == driver_search.modules.load_relaxed())) return false;
    driver_search.modules.store_relaxed(modules);
    return search_drivers();
}
/// Makes has_driver() search again, whatever was imported.
inline void expect_driver() noexcept { driver_search.modules.store_relaxed(-1); }

/// Makes a device the current one of this thread, as its events and its legacy stream require; restores the old one at
/// the end.
class CurrentDevice {
public:
    CurrentDevice(const StreamDriver& driver, int device) noexcept : driver_(driver), device_(device) {
        ok_ = driver.get_device(&before_) == 0 && before_ == device;
        if (ok_) return;
        if (driver.set_device != nullptr) {
            ok_ = changed_ = driver.set_device(device) == 0;
            return;
        }
        // The primary context is the one that every runtime uses.
        void* context = nullptr;
        if (driver.retain_context(&context, device) != 0) return;
        ok_ = changed_ = driver.push_context(context) == 0;
        if (!ok_) driver.release_context(device);
    }
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;
    ~CurrentDevice() {
        if (!changed_) return;
        if (driver_.set_device != nullptr) {
            driver_.set_device(before_);
            return;
        }
        void* ours = nullptr;
        driver_.pop_context(&ours);
        driver_.release_context(device_);
    }
    explicit operator bool() const noexcept { return ok_; }

private:
    const StreamDriver& driver_;
    int device_, before_ = -1;
    bool ok_ = false, changed_ = false;
};

/// An event without timing, destroyed at the end; streams that already wait for it go on waiting.
class StreamEvent {
public:
    StreamEvent(const StreamDriver& driver, void* stream) noexcept : driver_(driver) {
        constexpr unsigned disable_timing = 2;
        recorded_ = driver.event_create(&event_, disable_timing) == 0 && driver.event_record(event_, stream) == 0;
    }
    StreamEvent(const StreamEvent&) = delete;
    StreamEvent& operator=(const StreamEvent&) = delete;
    ~StreamEvent() {
        if (event_ != nullptr) driver_.event_destroy(event_);
    }
    explicit operator bool() const noexcept { return recorded_; }
    void* get() const noexcept { return event_; }

private:
    const StreamDriver& driver_;
    void* event_ = nullptr;
    bool recorded_ = false;
};

/// The state of a stream in graph captures. The query is safe even while the legacy stream must not be used.
struct CaptureState {
    bool ok, barred, capturing;
    unsigned long long id;

    static CaptureState of(const StreamDriver& driver, void* stream) noexcept {
        int status = 0;
        unsigned long long id = 0;
        constexpr int implicit =
            906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the legacy stream, while a blocking one captures
        const int asked = driver.capture_info(stream, &status, &id);
        return {asked == 0 || asked == implicit, asked == implicit, asked == 0 && status != 0, id};
    }
};

/// Lets the host wait for an event; the relaxed mode keeps the wait from invalidating an unrelated capture.
inline bool wait_on_host(const StreamDriver& driver, void* event) noexcept {
    int mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
    driver.exchange_mode(&mode);
    PyThreadState* state = have_gil() ? PyEval_SaveThread() : nullptr;  // work that is waited for may want the GIL
    const int status = driver.event_synchronize(event);
    if (state != nullptr) surviving_exit([state] { PyEval_RestoreThread(state); });
    driver.exchange_mode(&mode);
    return status == 0;
}

// Streams have the numbers of the array API standard's `__dlpack__(stream=)`: CUDA's 1 is the legacy default stream, 2
// the per-thread one, and 0 ambiguous; ROCm's 0 is the default stream, and 1 and 2 are invalid. Every other number is
// an address.

inline bool has_streams(int device_type) noexcept {
    return ISTHMUS_UNLIKELY(device_type != kDLCPU) &&
           (device_type == kDLCUDA || device_type == kDLCUDAManaged || device_type == kDLROCM);
}
inline std::int64_t legacy_stream(Device device) noexcept { return device.type == kDLROCM ? 0 : 1; }
/// The number of a driver's handle, in which NULL is the legacy default stream.
inline std::int64_t stream_number(Device device, const void* handle) noexcept {
    return handle == nullptr ? legacy_stream(device)
                             : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(handle));
}
inline void* stream_handle(std::int64_t number) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

/// The number to use instead of this one, for an error; NULL if it may be a stream, or -1 for "order nothing".
inline const char* wanted_stream(Device device, std::int64_t number) noexcept {
    const bool rocm = device.type == kDLROCM;
    if (number < -1) return rocm ? "-1, 0 or a stream's address" : "-1, 1, 2 or a stream's address";
    if (!rocm && number == 0) return "-1, 1, 2 or a stream's address: 0 is ambiguous for CUDA";
    if (rocm && (number == 1 || number == 2)) return "-1, 0 or a stream's address: 1 and 2 name no stream of ROCm";
    return nullptr;
}

/// Makes the work put on `after` from now on wait for the work on `before` so far. False if the driver failed.
///
/// No capture is invalidated. The legacy default stream cannot take part in one, and two captures cannot be merged: the
/// launch of the graph has to order them. If `after` is being captured, work outside the capture cannot be waited for
/// inside it, so the host waits, and the data is ready before the graph runs.
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

/// The text of the error if order_streams() fails.
ISTHMUS_COLD inline TextBuffer explain_order(Device device, std::int64_t before, std::int64_t after) {
    return compose({"the driver could not order stream ", after, " after stream ", before, " of ", device});
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
