// Import by Arrow's PyCapsule interface: arrays of numbers, and of lists of one size of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/capsule/import.h>  // Python.h must come before any standard header

#include <cstring>
#include <string_view>

#include <isthmus/python/runtime/cuda_driver.h>
#include <isthmus/python/runtime/interned.h>

ISTHMUS_BEGIN

namespace detail {

/// The structs of the Arrow C data interface and of its device extension (arrow.apache.org, "The Arrow C data interface", "The
/// Arrow C Device data interface"), whose layout is frozen. Device types are numbered as DLPack numbers them.
struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    std::int64_t flags;
    std::int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    std::int64_t length, null_count, offset, n_buffers, n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};
struct ArrowDeviceArray {
    ArrowArray array;
    std::int64_t device_id;
    std::int32_t device_type;
    void* sync_event;
    std::int64_t reserved[3];
};

struct ArrowFormat {
    char letter;
    DType dtype;
};
inline constexpr ArrowFormat arrow_formats[] = {
    {'c', int8},  {'C', uint8},  {'s', int16},   {'S', uint16},  {'i', int32},   {'I', uint32},
    {'l', int64}, {'L', uint64}, {'e', float16}, {'f', float32}, {'g', float64},
};

/// Whether the metadata of a field (a count, then keys and values, each with its length ahead) names an extension type.
inline bool is_arrow_extension(const char* metadata) noexcept {
    if (metadata == nullptr) return false;
    const auto number = [&] {
        std::int32_t value = 0;
        std::memcpy(&value, metadata, sizeof value);
        metadata += sizeof value;
        return value;
    };
    for (std::int32_t rest = 2 * number(); rest > 0; --rest) {
        const std::int32_t length = number();
        if (length < 0) return true;
        if (rest % 2 == 0 && std::string_view(metadata, static_cast<std::size_t>(length)) == "ARROW:extension:name")
            return true;
        metadata += length;
    }
    return false;
}

/// Whether all of the bits from `first` on are set, in Arrow's order: the least significant one of a byte first.
inline bool all_bits_set(const void* bitmap, std::int64_t first, std::int64_t count) noexcept {
    const auto* bytes = static_cast<const unsigned char*>(bitmap);
    for (std::int64_t i = first; i < first + count;) {
        if (i % 8 == 0 && first + count - i >= 8) {
            if (bytes[i / 8] != 0xFF) return false;
            i += 8;
        } else {
            if (!(bytes[i / 8] >> (i % 8) & 1)) return false;
            ++i;
        }
    }
    return true;
}

/// Reads an Arrow array of numbers, or of lists of one size of them, without nulls.
struct ArrowReader {
    ImportRequest& request;
    const char* method;

    ISTHMUS_COLD bool fail(ErrorCode code, const std::string& text) const {
        return request.fail(code, concat({"the array of ", type_name(request.object), ".", method, "() ", text}));
    }

    /// Fills the descriptor but for the device, and checks it.
    bool read(const ArrowSchema* schema, const ArrowArray* array) const {
        DLTensor& t = request.out.dl();
        t.shape = request.out.shape();
        t.strides = nullptr;
        t.shape[0] = array->length;
        t.ndim = 1;
        Range levels[max_ndim];
        std::int64_t first = 0, count = array->length, end = 0;
        for (;;) {
            std::int64_t list_size = -1;
            if (!read_format(schema, array, list_size)) return false;
            const bool list = list_size >= 0;
            if (array->offset < 0 || count < 0 || __builtin_add_overflow(first, array->offset, &first) ||
                __builtin_add_overflow(first, count, &end) || array->n_buffers != (list ? 1 : 2) || array->buffers == nullptr)
                return fail(ErrorCode::bad_layout, concat({"has length ", array->length, ", offset ", array->offset, " and ",
                                                           array->n_buffers, " buffers"}));
            levels[t.ndim - 1] = {array, first, count};
            if (!list) break;
            if (!has_one_child(*schema) || !has_one_child(*array) || t.ndim == max_ndim)
                return fail(ErrorCode::bad_layout, concat({"has lists with ", array->n_children, " kinds of items"}));
            schema = schema->children[0];
            array = array->children[0];
            if (__builtin_mul_overflow(first, list_size, &first) || __builtin_mul_overflow(count, list_size, &count) ||
                __builtin_add_overflow(first, count, &end) || end > array->length)
                return fail(ErrorCode::bad_layout,
                            concat({"has lists of ", list_size, " that reach beyond its ", array->length, " items"}));
            t.shape[t.ndim++] = list_size;
        }
        std::int64_t offset = count == 0 ? 0 : first;
        if (!layout::multiply(offset, DType(t.dtype).itemsize()))
            return fail(ErrorCode::overflow, concat({"starts at element ", first}));
        t.data = const_cast<void*>(array->buffers[1]);
        t.byte_offset = static_cast<std::uint64_t>(offset);
        // Bitmaps are read only where the sizes can be true.
        if (!is_sound(t, flag::read_only)) return request.fail_unsound(t, flag::read_only);
        for (int i = 0; i < t.ndim; ++i)
            if (!has_no_nulls(levels[i])) return false;
        return true;
    }

private:
    /// What is wanted of one array, in the numbers of its buffers.
    struct Range {
        const ArrowArray* array;
        std::int64_t first, count;
    };

    template <class Node>
    static bool has_one_child(const Node& node) noexcept {
        return node.n_children == 1 && node.children != nullptr && node.children[0] != nullptr;
    }

    /// The dtype of numbers, or the size of lists.
    bool read_format(const ArrowSchema* schema, const ArrowArray* array, std::int64_t& list_size) const {
        const std::string_view format = schema->format != nullptr ? schema->format : "";
        const auto bad = [&](const char* why) {
            return fail(ErrorCode::bad_dtype, concat({"has the format '", format, "': ", why}));
        };
        if (schema->dictionary != nullptr || array->dictionary != nullptr)
            return bad("the numbers of a dictionary, not the values; decode it first");
        if (is_arrow_extension(schema->metadata)) return bad("an extension type; take its storage");
        if (format.substr(0, 3) == "+w:") {
            list_size = 0;
            for (char c : format.substr(3))
                if (c < '0' || c > '9' || __builtin_mul_overflow(list_size, 10, &list_size) ||
                    __builtin_add_overflow(list_size, c - '0', &list_size))
                    return bad("not a size");
            return true;
        }
        for (const ArrowFormat& row : arrow_formats)
            if (format.size() == 1 && row.letter == format[0]) {
                request.out.dl().dtype = row.dtype;
                return true;
            }
        if (format == "b") return bad("bits, eight to a byte; cast it to uint8 first");
        if (format.substr(0, 1) == "t") return bad("times; cast it to int64 first");
        return bad("no counterpart in DLPack");
    }

    bool has_no_nulls(const Range& range) const {
        const void* valid = range.array->buffers[0];
        if (range.array->null_count == 0 || valid == nullptr || range.count == 0) return true;
        const bool host = Device(request.out.dl().device).is_host();
        if (host && all_bits_set(valid, range.first, range.count)) return true;
        return fail(ErrorCode::not_values,
                    concat({host ? "has" : "may have", " nulls, which DLPack cannot say; fill or drop them first"}));
    }
};

inline void end_arrow_array(void* kept) {
    release_in_python([kept] {
        auto* array = static_cast<ArrowArray*>(kept);
        if (array->release != nullptr) array->release(array);
    });
    std::free(kept);
}

/// `__arrow_c_device_array__`, or `__arrow_c_array__` (arrow.apache.org, "The Arrow PyCapsule Interface"). The struct is moved
/// out of its capsule once all is well; until then it stays the capsule's. Arrow's arrays are immutable, so the tensor is
/// read-only.
ISTHMUS_NOINLINE inline bool import_arrow(ImportRequest& request, bool on_device) {
    const Interned& names = interned();
    const ArrowReader reader{request, on_device ? "__arrow_c_device_array__" : "__arrow_c_array__"};
    request.keep_alive();
    Ref pair(PyObject_CallMethodNoArgs(request.object, on_device ? names.arrow_device_array : names.arrow_array));
    if (!pair)
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           concat({type_name(request.object), ".", reader.method, "()"}));
    const auto pointer = [&](Py_ssize_t i, const char* name) {
        const bool two = PyTuple_Check(pair.get()) && PyTuple_GET_SIZE(pair.get()) == 2;
        return two ? PyCapsule_GetPointer(PyTuple_GET_ITEM(pair.get(), i), name) : nullptr;
    };
    const auto* schema = static_cast<const ArrowSchema*>(pointer(0, "arrow_schema"));
    void* pointed = schema != nullptr ? pointer(1, on_device ? "arrow_device_array" : "arrow_array") : nullptr;
    auto* array = static_cast<ArrowArray*>(pointed);  // the first member of an ArrowDeviceArray
    PyErr_Clear();
    if (array == nullptr || schema->release == nullptr || array->release == nullptr)
        return reader.fail(ErrorCode::producer_failed, "is not a pair of Arrow's capsules, not released yet");

    DLTensor& t = request.out.dl();
    t.device = DLDevice{kDLCPU, 0};
    if (on_device) {
        const auto* device = static_cast<const ArrowDeviceArray*>(pointed);
        t.device.device_type = static_cast<DLDeviceType>(device->device_type);
        const bool cpu = device->device_type == kDLCPU;
        if (!cpu) t.device.device_id = static_cast<std::int32_t>(device->device_id);
        if (!cpu && t.device.device_id != device->device_id)
            return reader.fail(ErrorCode::bad_device, concat({"is on device number ", device->device_id}));
        if (!cpu && device->sync_event != nullptr &&
            !wait_for_event(t.device, *static_cast<void**>(device->sync_event),
                            request.options.has_stream() ? &request.options.stream : nullptr))
            return reader.fail(ErrorCode::unavailable,
                               concat({"has an event of ", Device(t.device), " that cannot be waited for here"}));
    }
    if (!reader.read(schema, array)) return false;
    auto* kept = static_cast<ArrowArray*>(std::malloc(sizeof(ArrowArray)));
    if (kept == nullptr) return request.fail_out_of_memory();
    *kept = *array;
    if (!request.accept_sound(flag::read_only)) {
        std::free(kept);
        return false;
    }
    array->release = nullptr;
    request.out.hold(kept, plain_owner_ops<end_arrow_array>);
    return true;
}
inline bool import_arrow_array(ImportRequest& request) { return import_arrow(request, false); }
inline bool import_arrow_device_array(ImportRequest& request) { return import_arrow(request, true); }

}  // namespace detail

ISTHMUS_END
