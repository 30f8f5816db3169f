// SPDX-License-Identifier: Apache-2.0
// Arrow's structs of any numbers: what is taken must be what a slower reader with wider numbers finds, and without a
// null. Buffers, children and metadata are as long as the structs say, which is what a reader has to believe.
#include <isthmus/isthmus.h>

#include "src/bridge/protocol/arrow_reader.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz.h"

namespace {

using namespace isthmus;
using detail::ArrowArray;
using detail::ArrowSchema;
using Wide = __int128;

/// `count` bytes of the input in memory of that size, so that a sanitizer sees who reads beyond it.
std::unique_ptr<char[]> bytes(Input& in, std::size_t count, bool terminated) {
    auto out = std::make_unique<char[]>(count + (terminated ? 1 : 0));
    for (std::size_t i = 0; i < count; ++i) out[i] = in.take<char>();
    return out;
}

/// One level: a list, or the numbers; the next is its child.
struct Level {
    ArrowSchema schema{};
    ArrowArray array{};
    ArrowSchema* schemas[1];
    ArrowArray* arrays[1];
    const void* buffers[2];
    std::unique_ptr<char[]> format, metadata, bitmap;
    bool is_extension = false;
    alignas(16) char numbers[16];

    void read(Input& in) {
        const unsigned shape = in.take<unsigned char>();
        format = bytes(in, in.take<unsigned char>() % 12, true);
        schema.format = shape & 1 ? nullptr : format.get();
        array.length = in.take<std::int64_t>();
        array.offset = in.take<std::int64_t>();
        array.null_count = in.take<signed char>();
        array.n_buffers = in.take<signed char>();
        array.n_children = in.take<signed char>();
        schema.n_children = shape & 2 ? array.n_children : 1;
        buffers[1] = shape & 4 ? nullptr : numbers;
        buffers[0] = shape & 8 ? bits(in) : nullptr;
        array.buffers = shape & 16 ? nullptr : buffers;
        if (shape & 32) schema.metadata = pairs(in);
        if (shape & 64) array.dictionary = &array;
        if (shape & 128) schema.dictionary = &schema;
    }
    /// A bitmap for all that the array says it has, where anybody could have it.
    const void* bits(Input& in) {
        const Wide all = Wide(array.length) + array.offset;
        if (array.length < 0 || array.offset < 0 || all > 4096) return nullptr;
        const auto count = static_cast<std::size_t>((all + 7) / 8);
        bitmap = bytes(in, count, false);
        if (in.take<unsigned char>() & 1) std::memset(bitmap.get(), 0xFF, count);
        return bitmap.get();
    }
    const char* pairs(Input& in) {
        std::vector<char> text(4);
        const std::int32_t count = in.take<unsigned char>() % 3;
        std::memcpy(text.data(), &count, 4);
        for (int i = 0; i < 2 * count; ++i) {
            static const char extension[] = "ARROW:extension:name";
            const bool named = in.take<unsigned char>() & 1;
            const std::int32_t length = named ? sizeof extension - 1 : in.take<unsigned char>() % 4;
            is_extension = is_extension || (named && i % 2 == 0);  // a key, not a value
            const std::size_t at = text.size();
            text.resize(at + 4 + static_cast<std::size_t>(length));
            std::memcpy(&text[at], &length, 4);
            for (std::int32_t k = 0; k < length; ++k)
                text[at + 4 + static_cast<std::size_t>(k)] = named ? extension[k] : in.take<char>();
        }
        metadata = std::make_unique<char[]>(text.size());
        std::memcpy(metadata.get(), text.data(), text.size());
        return metadata.get();
    }
    bool is_list() const { return schema.format != nullptr && std::strncmp(schema.format, "+w:", 3) == 0; }
    bool is_plain() const { return schema.dictionary == nullptr && array.dictionary == nullptr && !is_extension; }
    bool is_null(Wide i) const {
        return array.null_count != 0 && buffers[0] != nullptr &&
               !(bitmap[static_cast<std::size_t>(i / 8)] >> int(i % 8) & 1);
    }
};

/// What was taken, checked by numbers that do not overflow.
void check_taken(const DLTensor& t, const std::vector<Level>& levels, bool host) {
    CHECK(detail::is_sound(t, flag::read_only));
    CHECK(t.ndim >= 1 && t.ndim <= static_cast<int>(levels.size()));
    Wide first = 0, count = t.shape[0];
    for (int i = 0; i < t.ndim; ++i) {
        const Level& level = levels[static_cast<std::size_t>(i)];
        CHECK(level.is_plain() && level.array.n_buffers == (i + 1 == t.ndim ? 2 : 1));
        CHECK(i == 0 ? count == level.array.length : first + count <= level.array.length);
        first += level.array.offset;
        CHECK(first >= 0 && count >= 0 && first + count <= INT64_MAX);
        for (Wide k = first; host && k < first + count && k < 4096; ++k) CHECK(!level.is_null(k));
        CHECK(host || level.array.null_count == 0 || level.buffers[0] == nullptr || count == 0);
        if (i + 1 == t.ndim) break;
        CHECK(level.is_list() && t.shape[i + 1] == std::strtoll(level.format.get() + 3, nullptr, 10));
        first *= t.shape[i + 1];
        count *= t.shape[i + 1];
    }
    const Level& numbers = levels[static_cast<std::size_t>(t.ndim - 1)];
    CHECK(!numbers.is_list() && t.data == numbers.buffers[1]);
    CHECK(Wide(t.byte_offset) == (count == 0 ? 0 : first * DType(t.dtype).itemsize()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in{data, size};
    const unsigned head = in.take<unsigned char>();
    std::vector<Level> levels(1 + head % 4);
    for (Level& level : levels) level.read(in);
    for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
        levels[i].schemas[0] = &levels[i + 1].schema;
        levels[i].arrays[0] = &levels[i + 1].array;
        levels[i].schema.children = levels[i].schemas;
        levels[i].array.children = levels[i].arrays;
    }
    const bool host = !(head & 16);
    for (const ArrowArray* array :
         {static_cast<const ArrowArray*>(nullptr), static_cast<const ArrowArray*>(&levels[0].array)}) {
        std::int64_t shape[max_ndim];
        DLTensor t{};
        t.device = host ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, 0};
        t.shape = shape;
        const Result<void> done = detail::ArrowReader(t).read(&levels[0].schema, array);
        if (!done)
            CHECK(done.error().what()[0] != '\0');
        else if (array != nullptr)
            check_taken(t, levels, host);
        else
            CHECK(detail::is_sound(t, flag::read_only) && layout::numel(t) == 0);
    }
    return 0;
}
