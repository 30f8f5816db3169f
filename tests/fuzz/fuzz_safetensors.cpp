// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, as load() reads it: what is taken for sound must lie in the file, without holes.
#include <isthmus/load.h>

#include "../../src/load/safetensors.h"

#include <cstring>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    namespace load = isthmus::load_impl;
    if (size < 1) return 0;
    // The first byte is how many bytes of elements follow the header, which is copied so that a sanitizer sees who
    // reads beyond.
    const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::uint64_t begin = load::header_begin + text.size(), file_size = begin + data[0];
    try {
        const load::Header header = load::read_header(text, file_size);
        std::uint64_t next = begin;
        for (const isthmus::TensorEntry& entry : header.entries) {
            std::int64_t numel = 0;
            CHECK(entry.begin == next && entry.end >= entry.begin && entry.dtype.is_valid());
            CHECK(isthmus::layout::numel(entry.shape.data(), static_cast<int>(entry.shape.size()), numel));
            CHECK(static_cast<std::uint64_t>(numel * entry.dtype.element_bits()) == 8 * (entry.end - entry.begin));
            CHECK(isthmus::detail::is_utf8(entry.name));
            next = entry.end;
        }
        CHECK(next == file_size);
    } catch (const isthmus::Error& error) {
        CHECK(error.code() == isthmus::ErrorCode::bad_file && std::strlen(error.what()) > 10);
    }
    return 0;
}
