// The structs of Arrow's C data interfaces, read without Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include <isthmus/core/config.h>
#include <isthmus/core/result.h>
#include "../../core/validate.h"

ISTHMUS_BEGIN

namespace detail {

// Their layout is frozen. Device types have DLPack's numbers.

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
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowArrayStream*, ArrowArray* out);  ///< at the end `out` is a released array
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

struct ArrowFormat {
    char letter;
    DType dtype;
};
inline constexpr ArrowFormat arrow_formats[] = {
    {'c', int8},  {'C', uint8},  {'s', int16},   {'S', uint16},  {'i', int32},   {'I', uint32},
    {'l', int64}, {'L', uint64}, {'e', float16}, {'f', float32}, {'g', float64},
};

/// Whether the metadata of a field (a count, then keys and values, each preceded by its length) names an extension
/// type.
inline bool is_arrow_extension(const char* metadata) noexcept {
    if (metadata == nullptr) return false;
    const auto number = [&] {
        std::int32_t value = 0;
        std::memcpy(&value, metadata, sizeof value);
        metadata += sizeof value;
        return value;
    };
    for (std::int64_t rest = 2 * std::int64_t{number()}; rest > 0; --rest) {
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

/// Reads an Arrow array of numbers, or of fixed-size lists of them, without nulls. Uses nothing of Python, and trusts
/// what no reader can check: that buffers, children and metadata are as long as the structs say.
class ArrowReader {
public:
    /// Fills `t` except for the device, which is set already; `t.shape` has room for max_ndim sizes.
    /// `for_copy`: elements that are not aligned are taken as well.
    explicit ArrowReader(DLTensor& t, bool for_copy = false) noexcept : t_(t), for_copy_(for_copy) {}

    /// Reads the tensor of an array; with NULL, that of an array without elements. The text of an error is the end of a
    /// sentence about the array.
    Result<void> read(const ArrowSchema* schema, const ArrowArray* array);
    /// The sizes, the offset or the address were wrong: explain_unsound() of `t` gives the better message.
    bool found_unsound() const noexcept { return unsound_; }
    /// The elements are of an extension type, whose storage may say less than they are.
    bool found_extension() const noexcept { return extension_; }

private:
    /// The requested part of one array, as a range of elements of its buffers.
    struct Range {
        const ArrowArray* array;
        std::int64_t first, count;
    };

    /// Whether a range begins at `first` + the array's own offset, with buffers as they must be.
    static bool begin(Range& range, int buffers) noexcept {
        std::int64_t end = 0;
        const ArrowArray* array = range.array;
        if (array == nullptr) return true;
        return array->offset >= 0 && range.count >= 0 &&
               !ISTHMUS_ADD_OVERFLOWS(range.first, array->offset, range.first) &&
               !ISTHMUS_ADD_OVERFLOWS(range.first, range.count, end) && array->n_buffers == buffers &&
               array->buffers != nullptr;
    }
    template <class Node>
    static bool has_one_child(const Node* node) noexcept {
        return node == nullptr || (node->n_children == 1 && node->children != nullptr && node->children[0] != nullptr);
    }
    /// From fixed-size lists to their items. False if the lists reach beyond them.
    static bool descend(Range& range, std::int64_t list_size) noexcept {
        if (range.array == nullptr) return true;
        std::int64_t end = 0;
        range.array = range.array->children[0];
        return !ISTHMUS_MULTIPLY_OVERFLOWS(range.first, list_size, range.first) &&
               !ISTHMUS_MULTIPLY_OVERFLOWS(range.count, list_size, range.count) &&
               !ISTHMUS_ADD_OVERFLOWS(range.first, range.count, end) && end <= range.array->length;
    }

    /// How the calls that a remedy names reach the numbers: libraries cast and fill lists of them by other calls.
    struct Items {
        const char *all = "it", *of_pyarrow = "", *of_polars = "", *of_pandas = "";

        explicit Items(int ndim) noexcept {
            if (ndim == 1) return;
            all = "the items of its lists";
            of_pyarrow = ".flatten(recursive=True)";
            of_polars = ".reshape((-1,))";
            of_pandas = ".list.flatten()";
        }
    };

    Result<void> read_format(const ArrowSchema* schema, const ArrowArray* array, std::int64_t& list_size);
    Result<void> finish(const Range& items, const Range* levels);
    Result<void> check_nulls(const Range& range) const;

    DLTensor& t_;
    const bool for_copy_;
    bool unsound_ = false;
    bool extension_ = false;
};

ISTHMUS_COLD inline Result<void> ArrowReader::read(const ArrowSchema* schema, const ArrowArray* array) {
    t_.strides = nullptr;
    t_.shape[0] = array != nullptr ? array->length : 0;
    t_.ndim = 1;
    Range levels[max_ndim];
    Range range{array, 0, t_.shape[0]};
    for (;;) {
        std::int64_t list_size = -1;
        if (auto known = read_format(schema, range.array, list_size); !known) return known;
        const bool list = list_size >= 0;
        if (!begin(range, list ? 1 : 2))
            return make_error(ErrorCode::bad_layout,
                              {"has length ", range.array->length, ", offset ", range.array->offset, " and ",
                               range.array->n_buffers, " buffers"});
        levels[t_.ndim - 1] = range;
        if (!list) return finish(range, levels);
        if (!has_one_child(schema) || !has_one_child(range.array) || t_.ndim == max_ndim)
            return make_error(ErrorCode::bad_layout, {"has lists with ", schema->n_children, " kinds of items"});
        if (!descend(range, list_size))
            return make_error(ErrorCode::bad_layout,
                              {"has lists of ", list_size, " that reach beyond its ", range.array->length, " items"});
        schema = schema->children[0];
        t_.shape[t_.ndim++] = list_size;
    }
}

/// The dtype of numbers, or the size of lists.
ISTHMUS_COLD inline Result<void> ArrowReader::read_format(const ArrowSchema* schema, const ArrowArray* array,
                                                          std::int64_t& list_size) {
    const std::string_view format = schema->format != nullptr ? schema->format : "";
    const auto bad = [&](Message why) {
        return make_error(ErrorCode::bad_dtype, {"has the format '", format, "': ", why});
    };
    const Items items(t_.ndim);
    if (schema->dictionary != nullptr || (array != nullptr && array->dictionary != nullptr))
        return bad(
            "the numbers of a dictionary, not the values; decode it first (pyarrow: x.dictionary_decode(), "
            "pandas: x.to_numpy()), or take the numbers (pyarrow: x.indices, pandas: x.cat.codes, polars: "
            "x.to_physical())");
    extension_ = is_arrow_extension(schema->metadata);
    if (extension_) return bad("an extension type; take its storage (pyarrow: x.storage)");
    if (format.substr(0, 3) == "+w:") {
        list_size = 0;
        for (char c : format.substr(3))
            if (c < '0' || c > '9' || ISTHMUS_MULTIPLY_OVERFLOWS(list_size, 10, list_size) ||
                ISTHMUS_ADD_OVERFLOWS(list_size, c - '0', list_size))
                return bad("not a size");
        return {};
    }
    for (const ArrowFormat& row : arrow_formats)
        if (format.size() == 1 && row.letter == format[0]) {
            t_.dtype = row.dtype;
            return {};
        }
    if (format == "b")
        return bad({"bits, eight to a byte; cast ", items.all, " to uint8 first (pyarrow: x", items.of_pyarrow,
                    ".cast('uint8'), polars: x", items.of_polars, ".cast(polars.UInt8), pandas: x", items.of_pandas,
                    ".astype('uint8'))"});
    const bool narrow = format == "tdD" || format == "tts" || format == "ttm";
    if (narrow)
        return bad({"times; cast ", items.all, " to int64 by way of int32 (pyarrow: x", items.of_pyarrow,
                    ".cast('int32'), polars: x.to_physical())"});
    if (format.substr(0, 1) == "t" && format.substr(0, 2) != "ti")
        return bad({"times; cast ", items.all, " to int64 first (pyarrow: x", items.of_pyarrow,
                    ".cast('int64'), polars: x.to_physical(), pandas: x", items.of_pandas, ".astype('int64'))"});
    return bad("no counterpart in DLPack");
}

/// Address and offset of the numbers, checked; then the bitmaps, which are read only if the sizes are plausible.
ISTHMUS_COLD inline Result<void> ArrowReader::finish(const Range& items, const Range* levels) {
    std::int64_t offset = items.count == 0 ? 0 : items.first;
    if (!layout::multiply(offset, DType(t_.dtype).itemsize()))
        return make_error(ErrorCode::overflow, {"starts at element ", items.first});
    t_.data = items.array != nullptr ? const_cast<void*>(items.array->buffers[1]) : nullptr;
    t_.byte_offset = static_cast<std::uint64_t>(offset);
    if (!is_sound(t_, flag::read_only)) {
        Error error = explain_unsound(t_, flag::read_only, nullptr);
        unsound_ = !for_copy_ || error.code() != ErrorCode::needs_copy;
        if (unsound_) return error;
    }
    for (int i = 0; i < t_.ndim; ++i)
        if (auto whole = check_nulls(levels[i]); !whole) return whole;
    return {};
}

ISTHMUS_COLD inline Result<void> ArrowReader::check_nulls(const Range& range) const {
    if (range.array == nullptr || range.array->null_count == 0 || range.count == 0) return {};
    const void* valid = range.array->buffers[0];
    const bool host = Device(t_.device).is_host();
    if (valid == nullptr || (host && all_bits_set(valid, range.first, range.count))) return {};
    const char* found = host ? "has" : "may have";
    if (t_.ndim == 1)
        return make_error(
            ErrorCode::not_values,
            {found,
             " nulls, which DLPack cannot say; fill them first (pyarrow and polars: x.fill_null(0), pandas: "
             "x.fillna(0)), or drop them"});
    const Items items(t_.ndim);
    return make_error(ErrorCode::not_values,
                      {found, " nulls, which DLPack cannot say; fill ", items.all, " first (pyarrow: x",
                       items.of_pyarrow, ".fill_null(0), polars: x", items.of_polars, ".fill_null(0), pandas: x",
                       items.of_pandas, ".fillna(0)), or drop the lists that have them"});
}

}  // namespace detail

ISTHMUS_END
