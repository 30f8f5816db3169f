// JSON as a file's header holds it (RFC 8259), read piece by piece by a caller that knows what must come next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/isthmus.h>

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

ISTHMUS_END
