// Import from Arrow's C data and C device data interfaces, and their streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include "arrow_reader.h"
#include "capsule.h"

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
    /// The result of the method, a new reference; empty with the error left in the request.
    Ref call(PyObject* name) const {
        request.keep_alive();
        Ref answer(PyObject_CallMethodNoArgs(request.object, name));
        if (!answer) fail_with_exception(compose({type_name(request.object), ".", method, "()"}));
        return answer;
    }
    /// What pandas cannot give to Arrow (complex numbers, say) its own call may give.
    ISTHMUS_COLD bool fail_with_exception(const TextBuffer& what) const {
        if (!request.producer.converts || request.producer.hint == nullptr)
            return request.fail_with_exception(ErrorCode::producer_failed, what);
        return request.fail_with_exception(ErrorCode::producer_failed, what,
                                           {request.producer.hint, " gives an array"});
    }
    /// Fills the descriptor except for the device, and checks it.
    bool read(const ArrowSchema* schema, const ArrowArray* array) const {
        DLTensor& t = request.out.dl();
        t.shape = request.out.shape();
        ArrowReader reader(t, request.for_copy != nullptr);
        const Result<void> done = reader.read(schema, array);
        if (done) return true;
        if (reader.found_unsound()) return request.fail_unsound(t, flag::read_only);
        const char* call = request.producer.hint;
        if (reader.found_extension() && request.producer.converts)  // to_numpy() would give objects
            return fail(done.error().code(),
                        "is of an extension type, whose storage may say less than it is; convert it to numbers first "
                        "(periods of pandas: x.astype('int64'))");
        if (reader.found_extension() && call != nullptr)
            return fail(done.error().code(), {"is of an extension type; ", call, " gives an array that can show it"});
        return fail(done.error().code(), done.error().what());
    }
    /// Takes an array that was read: it is moved only once everything has succeeded, and stays with its owner until
    /// then. Arrow's arrays are immutable, so the tensor is read-only.
    ISTHMUS_COLD bool take(ArrowArray& array) const {
        auto* kept = static_cast<ArrowArray*>(std::malloc(sizeof(ArrowArray)));
        if (kept == nullptr) return request.fail_out_of_memory();
        *kept = array;
        if (!request.accept_sound(flag::read_only)) {
            std::free(kept);
            return false;
        }
        if (!AtomicRef(array.release).exchange(nullptr)) {  // another thread has taken the same array
            std::free(kept);
            return fail(ErrorCode::producer_failed, "was taken by another thread; ask the producer for a new one");
        }
        request.out.hold(kept, plain_owner_ops<end_arrow_array>);
        return settle_stream(request, no_stream, true);
    }
};

/// Reads the device of a device array, and waits for its event.
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
    if (array.sync_event == nullptr || order_event(t.device, *static_cast<void**>(array.sync_event), after))
        return true;
    return import.fail(ErrorCode::unavailable,
                       {"has an event of ", Device(t.device), " that cannot be waited for here"});
}

/// `__arrow_c_device_array__`, or `__arrow_c_array__`.
ISTHMUS_COLD inline bool import_arrow(ImportRequest& request, bool on_device) {
    const Interned& names = interned();
    const ArrowImport import{request, on_device ? "__arrow_c_device_array__" : "__arrow_c_array__"};
    request.doubt();  // a stream is not: its second answer may be the next one
    const Ref pair = import.call(on_device ? names.arrow_device_array : names.arrow_array);
    if (!pair) return false;
    const auto pointer = [&](Py_ssize_t i, const char* name) {
        const bool two = PyTuple_Check(pair.get()) && PyTuple_GET_SIZE(pair.get()) == 2;
        return two ? PyCapsule_GetPointer(PyTuple_GET_ITEM(pair.get(), i), name) : nullptr;
    };
    const auto* schema = static_cast<const ArrowSchema*>(pointer(0, "arrow_schema"));
    void* pointed = schema != nullptr ? pointer(1, on_device ? "arrow_device_array" : "arrow_array") : nullptr;
    auto* array = static_cast<ArrowArray*>(pointed);  // the first member of an ArrowDeviceArray
    if (array == nullptr && is_interrupted())
        return import.request.fail_with_exception(ErrorCode::producer_failed, "reading an Arrow array");
    if (array == nullptr || schema->release == nullptr || array->release == nullptr)
        return import.fail(ErrorCode::producer_failed, "is not a pair of Arrow's capsules, not released yet");
    request.out.dl().device = DLDevice{kDLCPU, 0};
    if (on_device && !place_arrow_array(import, *static_cast<const ArrowDeviceArray*>(pointed))) return false;
    return import.read(schema, array) && import.take(*array);
}
inline bool import_arrow_array(ImportRequest& request) { return import_arrow(request, false); }
inline bool import_arrow_device_array(ImportRequest& request) { return import_arrow(request, true); }

/// The chunks of a stream. A tensor is one piece of memory, so at most one of them may have elements.
struct ArrowChunks {
    const ArrowImport& import;
    ArrowArrayStream& stream;
    ArrowOwned<ArrowArray> chunk{};      ///< the first with elements, or the first
    static constexpr int most = 10'000;  ///< a stream need not have an end
    int filled = 0;                      ///< how many have elements
    bool at_end = false;                 ///< false: there may be more

    ISTHMUS_COLD bool fail() const {
        const TextBuffer what = compose({type_name(import.request.object), ".", import.method, "()"});
        if (PyErr_Occurred() != nullptr) return import.fail_with_exception(what);
        const char* text = stream.get_last_error != nullptr ? stream.get_last_error(&stream) : nullptr;
        return import.request.fail(
            ErrorCode::producer_failed,
            {what, " gave a stream that failed", (text != nullptr ? ": " : ""), (text != nullptr ? text : "")});
    }
    /// Reads up to the end, or up to `most` chunks.
    bool collect() {
        for (int i = 0; i < most; ++i) {
            ArrowOwned<ArrowArray> next;
            if (stream.get_next(&stream, &next.value) != 0 || PyErr_Occurred() != nullptr) return fail();
            if ((at_end = next.value.release == nullptr)) return true;
            const bool has_elements = next.value.length != 0;
            filled += has_elements;
            if (chunk.value.release == nullptr || (has_elements && filled == 1)) chunk.take(next.value);
        }
        return true;
    }
    bool is_one() const noexcept { return at_end && filled <= 1; }
    ISTHMUS_COLD bool fail_many() const {
        const char* call = import.request.producer.hint;
        return import.fail(ErrorCode::needs_copy,
                           {"is in ", (at_end ? filled : most), (at_end ? "" : " or more"), " chunks; ",
                            (call != nullptr ? call : "combining them"), " gives one"});
    }
};

/// `__arrow_c_stream__`: polars, pandas, pyarrow.ChunkedArray.
ISTHMUS_COLD inline bool import_arrow_stream(ImportRequest& request) {
    const ArrowImport import{request, "__arrow_c_stream__"};
    const Ref capsule = import.call(interned().arrow_stream);
    if (!capsule) return false;
    auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.get(), "arrow_array_stream"));
    if (stream == nullptr && is_interrupted())
        return import.request.fail_with_exception(ErrorCode::producer_failed, "reading an Arrow stream");
    if (stream == nullptr || stream->release == nullptr)
        return import.fail(ErrorCode::producer_failed, "is not in a capsule of Arrow's streams, not released yet");
    request.out.dl().device = DLDevice{kDLCPU, 0};
    ArrowChunks chunks{import, *stream};
    ArrowOwned<ArrowSchema> schema;
    if (stream->get_schema(stream, &schema.value) != 0 || PyErr_Occurred() != nullptr ||
        schema.value.release == nullptr)
        return chunks.fail();
    // A stream can be read only once: what its schema rules out is refused before anything is taken from it.
    if (!import.read(&schema.value, nullptr) || !chunks.collect()) return false;
    if (!chunks.is_one()) return chunks.fail_many();
    if (chunks.chunk.value.release == nullptr) return request.accept_sound(flag::read_only);
    return import.read(&schema.value, &chunks.chunk.value) && import.take(chunks.chunk.value);
}

}  // namespace detail

ISTHMUS_END
