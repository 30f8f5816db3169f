// Import by Arrow's PyCapsule interface: one array of numbers, or of lists of one size of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../capsule/import.h"  // Python.h must come before any standard header

#include "reader.h"
#include <isthmus/python/runtime/interned.h>

ISTHMUS_BEGIN

namespace detail {

template <class Struct>
void release_arrow(Struct& owned) {
    if (owned.release != nullptr) release_here([&owned] { owned.release(&owned); });
}

/// Owns one of Arrow's structs: released at the end, unless it was moved on.
template <class Struct>
struct ArrowOwned {
    Struct value{};
    ArrowOwned() = default;
    ArrowOwned(const ArrowOwned&) = delete;
    ArrowOwned& operator=(const ArrowOwned&) = delete;
    ~ArrowOwned() { release_arrow(value); }
    /// Moves `other` in; a moved-from struct is marked as released (the C data interface, "Moving an array").
    void take(Struct& other) noexcept {
        release_arrow(value);
        value = other;
        other.release = nullptr;
    }
};

inline void end_arrow_array_here(void* kept) {
    auto* array = static_cast<ArrowArray*>(kept);
    if (array->release != nullptr) array->release(array);
    std::free(kept);
}
inline void end_arrow_array(void* kept) { release_in_python(end_arrow_array_here, kept); }

/// One import by a method of Arrow's PyCapsule interface (arrow.apache.org, "The Arrow PyCapsule Interface").
struct ArrowImport {
    ImportRequest& request;
    const char* method;

    ISTHMUS_COLD bool fail(ErrorCode code, Message text) const {
        return request.fail(code, {"the array of ", type_name(request.object), ".", method, "() ", text});
    }
    /// What the method returns, a new reference; empty with the error left in the request.
    Ref call(PyObject* name) const {
        request.keep_alive();
        Ref answer(PyObject_CallMethodNoArgs(request.object, name));
        if (!answer) request.fail_with_exception(ErrorCode::producer_failed, {type_name(request.object), ".", method, "()"});
        return answer;
    }
    /// Fills the descriptor except for the device, and checks it.
    bool read(const ArrowSchema* schema, const ArrowArray* array) const {
        DLTensor& t = request.out.dl();
        t.shape = request.out.shape();
        ArrowReader reader(t);
        const Result<void> done = reader.read(schema, array);
        if (done) return true;
        if (reader.found_unsound()) return request.fail_unsound(t, flag::read_only);
        return fail(done.error().code(), done.error().what());
    }
    /// Takes an array that was read: it is moved only once everything has succeeded, and stays with its owner until then.
    /// Arrow's arrays are immutable, so the tensor is read-only.
    bool take(ArrowArray& array) const {
        auto* kept = static_cast<ArrowArray*>(std::malloc(sizeof(ArrowArray)));
        if (kept == nullptr) return request.fail_out_of_memory();
        *kept = array;
        if (!request.accept_sound(flag::read_only)) {
            std::free(kept);
            return false;
        }
        if (!__atomic_exchange_n(&array.release, nullptr, __ATOMIC_ACQ_REL)) {  // another thread has taken the same array
            std::free(kept);
            return fail(ErrorCode::producer_failed, "was taken by another thread; ask the producer for a new one");
        }
        request.out.hold(kept, plain_owner_ops<end_arrow_array>);
        return settle_stream(request, no_stream, true);
    }
};

/// Reads where a device array lies, and waits for its event.
inline bool place_arrow_array(const ArrowImport& import, const ArrowDeviceArray& array) {
    ImportRequest& request = import.request;
    DLTensor& t = request.out.dl();
    t.device.device_type = static_cast<DLDeviceType>(array.device_type);
    if (array.device_type == kDLCPU) return true;
    t.device.device_id = static_cast<std::int32_t>(array.device_id);
    if (t.device.device_id != array.device_id)
        return import.fail(ErrorCode::bad_device, {"is on device number ", array.device_id});
    if (!accept_stream(request, t.device)) return false;
    const std::int64_t after = request.options.has_stream() ? request.options.stream : legacy_stream(t.device);
    if (array.sync_event == nullptr || order_event(t.device, *static_cast<void**>(array.sync_event), after)) return true;
    return import.fail(ErrorCode::unavailable, {"has an event of ", Device(t.device), " that cannot be waited for here"});
}

/// `__arrow_c_device_array__`, or `__arrow_c_array__`.
ISTHMUS_NOINLINE inline bool import_arrow(ImportRequest& request, bool on_device) {
    const Interned& names = interned();
    const ArrowImport import{request, on_device ? "__arrow_c_device_array__" : "__arrow_c_array__"};
    const Ref pair = import.call(on_device ? names.arrow_device_array : names.arrow_array);
    if (!pair) return false;
    const auto pointer = [&](Py_ssize_t i, const char* name) {
        const bool two = PyTuple_Check(pair.get()) && PyTuple_GET_SIZE(pair.get()) == 2;
        return two ? PyCapsule_GetPointer(PyTuple_GET_ITEM(pair.get(), i), name) : nullptr;
    };
    const auto* schema = static_cast<const ArrowSchema*>(pointer(0, "arrow_schema"));
    void* pointed = schema != nullptr ? pointer(1, on_device ? "arrow_device_array" : "arrow_array") : nullptr;
    auto* array = static_cast<ArrowArray*>(pointed);  // the first member of an ArrowDeviceArray
    PyErr_Clear();
    if (array == nullptr || schema->release == nullptr || array->release == nullptr)
        return import.fail(ErrorCode::producer_failed, "is not a pair of Arrow's capsules, not released yet");
    request.out.dl().device = DLDevice{kDLCPU, 0};
    if (on_device && !place_arrow_array(import, *static_cast<const ArrowDeviceArray*>(pointed))) return false;
    return import.read(schema, array) && import.take(*array);
}
inline bool import_arrow_array(ImportRequest& request) { return import_arrow(request, false); }
inline bool import_arrow_device_array(ImportRequest& request) { return import_arrow(request, true); }

}  // namespace detail

ISTHMUS_END
