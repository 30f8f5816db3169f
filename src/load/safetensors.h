// The header of a safetensors file: its JSON, and which tensors it says there are, and where.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <isthmus/load.h>

ISTHMUS_BEGIN

namespace load_impl {

/// Reads a text from its beginning to its end. Every function throws Error(bad_file), with the position, if something
/// other than the expected item comes next. The text outlives the reader.
class JsonReader {
public:
    explicit JsonReader(std::string_view text) noexcept : text_(text) {}

    /// Consumes `c` if it comes next.
    bool take(char c) noexcept {
        skip_space();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail({"expected '", std::string_view(&c, 1), "'"});
    }
    /// Calls `entry` before each member of an object or element of an array; `entry` has to read it.
    template <class Entry>
    void each(char open, char close, Entry&& entry) {
        expect(open);
        if (take(close)) return;
        do entry();
        while (take(','));
        expect(close);
    }
    /// `member(key)` has to read the value.
    template <class Member>
    void object(Member&& member) {
        each('{', '}', [&] {
            std::string key = string();
            expect(':');
            member(std::move(key));
        });
    }
    template <class Element>
    void array(Element&& element) {
        each('[', ']', element);
    }

    std::string string() {
        expect('"');
        std::string out;
        for (;;) {
            const char c = next();
            if (c == '"') return out;
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character stands in a text");
            if (c != '\\')
                out += c;
            else
                append_escape(out);
        }
    }
    /// A whole number of 0 or more, as JSON writes it, of at most 2**63 - 1.
    std::int64_t whole_number() {
        skip_space();
        const std::size_t begin = at_;
        std::int64_t value = 0;
        for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
            if (ISTHMUS_MULTIPLY_OVERFLOWS(value, 10, value) || ISTHMUS_ADD_OVERFLOWS(value, text_[at_] - '0', value))
                fail("a number is larger than 2**63 - 1");
        if (at_ == begin || (at_ - begin > 1 && text_[begin] == '0')) fail("expected a whole number of 0 or more");
        return value;
    }
    /// Whether `word` comes next, which it then has read.
    bool take(std::string_view word) noexcept {
        skip_space();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    /// Reads a value of any kind, in at most `levels` lists and objects within each other.
    void skip(int levels) {
        skip_space();
        const char c = at_ == text_.size() ? '\0' : text_[at_];
        if ((c == '[' || c == '{') && levels == 0) fail("lists and objects stand too deep within each other");
        if (c == '{') return object([&](const std::string&) { skip(levels - 1); });
        if (c == '[') return array([&] { skip(levels - 1); });
        if (c == '"') return (void)string();
        if (!take("null") && !take("true") && !take("false")) skip_number();
    }
    /// Checks that only white space is left.
    void end() {
        skip_space();
        if (at_ != text_.size()) fail("expected the end");
    }

    [[noreturn]] ISTHMUS_COLD void fail(isthmus::detail::Message why) const {
        throw Error(ErrorCode::bad_file, ErrorKind::value,
                    isthmus::detail::concat({"the header's JSON is not sound at byte ", at_, ": ", why}));
    }

private:
    static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
    bool take_at_once(std::string_view any) noexcept {
        if (at_ == text_.size() || any.find(text_[at_]) == std::string_view::npos) return false;
        ++at_;
        return true;
    }
    void skip_digits() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
        if (at_ == begin) fail("expected a value");
    }
    void skip_number() {
        take_at_once("-");
        if (!take_at_once("0")) skip_digits();
        if (take_at_once(".")) skip_digits();
        if (!take_at_once("eE")) return;
        take_at_once("+-");
        skip_digits();
    }
    void skip_space() noexcept {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
            ++at_;
    }
    char next() {
        if (at_ == text_.size()) fail("a text has no end");
        return text_[at_++];
    }
    std::uint32_t four_digits() {
        std::uint32_t value = 0;
        for (int i = 0; i < 4; ++i) {
            const char c = next();
            const int digit = is_digit(c)            ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) fail("expected four hexadecimal digits");
            value = value * 16 + static_cast<std::uint32_t>(digit);
        }
        return value;
    }
    void append_escape(std::string& out) {
        const char c = next();
        constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
        if (const std::size_t known = names.find(c); known != std::string_view::npos) {
            out += values[known];
            return;
        }
        if (c != 'u') fail("an escape is none of JSON's");
        std::uint32_t point = four_digits();
        if (point >= 0xDC00 && point < 0xE000) fail("the second half of a surrogate pair stands alone");
        if (point >= 0xD800 && point < 0xDC00) {
            if (next() != '\\' || next() != 'u') fail("the first half of a surrogate pair stands alone");
            const std::uint32_t low = four_digits();
            if (low < 0xDC00 || low >= 0xE000) fail("the first half of a surrogate pair stands alone");
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        }
        append_utf8(out, point);
    }
    static void append_utf8(std::string& out, std::uint32_t point) {
        const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
        if (point < 0x80) return put(point);
        if (point < 0x800)
            put(0xC0 | point >> 6);
        else {
            if (point < 0x10000)
                put(0xE0 | point >> 12);
            else {
                put(0xF0 | point >> 18);
                put(0x80 | (point >> 12 & 0x3F));
            }
            put(0x80 | (point >> 6 & 0x3F));
        }
        put(0x80 | (point & 0x3F));
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace load_impl

namespace load_impl {

/// How safetensors writes a dtype (Dtype in its own tensor.rs).
struct FileDType {
    std::string_view name;
    DType dtype;
};
inline constexpr FileDType file_dtypes[] = {
    {"BOOL", boolean},
    {"F4", float4_e2m1fn},
    {"F6_E2M3", float6_e2m3fn},
    {"F6_E3M2", float6_e3m2fn},
    {"U8", uint8},
    {"I8", int8},
    {"F8_E5M2", float8_e5m2},
    {"F8_E4M3", float8_e4m3fn},
    {"F8_E8M0", float8_e8m0fnu},
    {"F8_E4M3FNUZ", float8_e4m3fnuz},
    {"F8_E5M2FNUZ", float8_e5m2fnuz},
    {"I16", int16},
    {"U16", uint16},
    {"F16", float16},
    {"BF16", bfloat16},
    {"I32", int32},
    {"U32", uint32},
    {"F32", float32},
    {"C64", complex64},
    {"F64", float64},
    {"I64", int64},
    {"U64", uint64},
};

/// The content of a header, checked: the tensors follow each other through the whole file without a hole, in this
/// order.
struct Header {
    std::vector<TensorEntry> entries;
    std::vector<std::pair<std::string, std::string>> metadata;
};

[[noreturn]] ISTHMUS_COLD inline void fail_file(isthmus::detail::Message text) {
    throw isthmus::detail::make_error(ErrorCode::bad_file, ErrorKind::value, text);
}

inline DType parse_file_dtype(const std::string& name, const std::string& tensor) {
    for (const FileDType& known : file_dtypes)
        if (known.name == name) return known.dtype;
    fail_file({"tensor '", tensor, "' has the dtype '", name, "', which is none of safetensors' that are known here"});
}

/// How deep the lists and objects of a field that is not known may stand within each other, as in the format's own
/// library.
inline constexpr int deepest_field = 125;

/// Reads one tensor, with offsets as the file has them: from the end of the header.
inline TensorEntry read_entry(JsonReader& json, std::string name) {
    TensorEntry entry{std::move(name), {}, {}, 0, 0};
    bool dtype = false, shape = false, offsets = false;
    const auto once = [&](bool& seen, std::string_view field) {
        if (std::exchange(seen, true)) json.fail({"a second '", field, "' of tensor '", entry.name, "'"});
    };
    json.object([&](const std::string& field) {
        if (field == "dtype") {
            once(dtype, field);
            entry.dtype = parse_file_dtype(json.string(), entry.name);
        } else if (field == "shape") {
            once(shape, field);
            json.array([&] { entry.shape.push_back(json.whole_number()); });
        } else if (field == "data_offsets") {
            once(offsets, field);
            json.expect('[');
            entry.begin = static_cast<std::uint64_t>(json.whole_number());
            json.expect(',');
            entry.end = static_cast<std::uint64_t>(json.whole_number());
            json.expect(']');
        } else {
            json.skip(deepest_field);
        }
    });
    if (!dtype || !shape || !offsets)
        json.fail({"tensor '", entry.name, "' has no ", !dtype ? "dtype" : !shape ? "shape" : "data_offsets"});
    return entry;
}

/// Of entries of one name, the last one counts, as in the format's own library.
inline void keep_last_of_each_name(std::vector<TensorEntry>& entries) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    const auto same = [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; };
    entries.erase(entries.begin(), std::unique(entries.rbegin(), entries.rend(), same).base());
}

/// Whether the entry's bytes are those of its dtype and sizes.
inline void check_entry(const TensorEntry& entry) {
    const int ndim = static_cast<int>(std::min<std::size_t>(entry.shape.size(), max_ndim + 1));
    if (ndim > max_ndim)
        fail_file({"tensor '", entry.name, "' has ", entry.shape.size(), " dimensions; expected at most ", max_ndim});
    std::int64_t numel = 0, bits = 0;
    if (!layout::numel(entry.shape.data(), ndim, numel) ||
        ISTHMUS_MULTIPLY_OVERFLOWS(numel, entry.dtype.element_bits(), bits))
        fail_file({"the sizes of tensor '", entry.name, "' multiply to more than 2**63 - 1 bits"});
    if (bits % 8 != 0)
        fail_file({"tensor '", entry.name, "' has ", numel, " elements of ", entry.dtype, ", which end within a byte"});
    if (entry.end < entry.begin || entry.end - entry.begin != static_cast<std::uint64_t>(bits / 8))
        fail_file({"tensor '", entry.name, "' has the bytes ", entry.begin, " to ", entry.end, "; expected ", bits / 8,
                   " bytes for ", isthmus::detail::sizes_text(entry.shape.data(), ndim), " of ", entry.dtype});
}

/// Sorts the entries as they lie in the file, and refuses holes, overlaps, and bytes that belong to no tensor.
inline void check_entries(std::vector<TensorEntry>& entries, std::uint64_t begin, std::uint64_t file_size) {
    std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::uint64_t next = 0;
    for (TensorEntry& entry : entries) {
        check_entry(entry);
        if (entry.begin != next)
            fail_file({"tensor '", entry.name, "' begins at byte ", entry.begin, "; expected ", next,
                       ", where the one before it ends"});
        if (entry.end > file_size - begin)
            fail_file({"tensor '", entry.name, "' ends at byte ", entry.end, ", but ", file_size - begin,
                       " follow the header: the file is cut short"});
        next = entry.end;
        entry.begin += begin;
        entry.end += begin;
    }
    if (next != file_size - begin)
        fail_file({file_size - begin - next, " bytes at the end of the file belong to no tensor"});
}

/// The sizes of a file's parts: 8 bytes that say how long the header is (little-endian), the header, the elements.
inline constexpr std::uint64_t header_begin = 8, longest_header = 100'000'000;

/// Files that are taken for ours, by their first bytes. Some of these numbers are lengths that a header may have, so
/// they tell only of a file that is not sound.
struct OtherFormat {
    std::string_view begin, name;
};
inline constexpr OtherFormat other_formats[] = {
    {"PK\3\4", "a zip archive, as torch.save() and numpy.savez() write"},
    {"\x93NUMPY", "an array of numpy.save()"},
    {"GGUF", "a GGUF file"},
    {"\x89HDF", "an HDF5 file"},
    {"\x1f\x8b", "compressed by gzip"},
    {"\x80\2", "a pickle"},
    {"\x80\4", "a pickle"},
    {"\x80\5", "a pickle"},
};
/// "this is not a safetensors file", and what it is if that is known.
inline std::string not_safetensors(std::string_view first) {
    for (const OtherFormat& other : other_formats)
        if (first.starts_with(other.begin)) return "this is not a safetensors file but " + std::string(other.name);
    return "this is not a safetensors file";
}

/// The end of the header, from the first 8 bytes of a file. Throws Error(bad_file).
inline std::uint64_t header_end(const unsigned char (&length)[header_begin], std::uint64_t file_size) {
    std::uint64_t size = 0;
    for (int i = header_begin - 1; i >= 0; --i) size = size << 8 | length[i];
    const std::string_view first(reinterpret_cast<const char*>(length), header_begin);
    if (size > longest_header)
        fail_file({not_safetensors(first), ": the header's length would be ", size, " bytes; expected at most ",
                   longest_header});
    if (size > file_size - header_begin)
        fail_file({not_safetensors(first), ", or it is cut short: the header's length is ", size, " bytes, but ",
                   file_size - header_begin, " follow"});
    return header_begin + size;
}

/// Reads and checks the header `text` of a file of `file_size` bytes. Throws Error(bad_file) for a file that is not
/// sound: holes, overlaps, bytes that belong to no tensor. Where the "Format" section of safetensors' README asks for
/// more than its library does (a header that begins with '{', names that come once), the library is followed.
inline Header read_header(std::string_view text, std::uint64_t file_size) {
    const std::size_t begin = text.find_first_not_of(" \n\r\t");
    if (begin == std::string_view::npos || text[begin] != '{')
        fail_file("this is not a safetensors file: the header does not begin with '{'");
    if (!isthmus::detail::is_utf8(text)) fail_file("the header is not UTF-8");
    Header header;
    bool has_metadata = false;
    JsonReader json(text);
    json.object([&](std::string name) {
        if (name != "__metadata__") return header.entries.push_back(read_entry(json, std::move(name)));
        if (std::exchange(has_metadata, true)) json.fail("a second '__metadata__'");
        if (!json.take("null"))
            json.object([&](std::string key) { header.metadata.emplace_back(std::move(key), json.string()); });
    });
    json.end();
    keep_last_of_each_name(header.entries);
    check_entries(header.entries, header_begin + text.size(), file_size);
    return header;
}

}  // namespace load_impl

ISTHMUS_END
