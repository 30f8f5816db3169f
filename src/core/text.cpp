// Text of messages: pieces put together by one function, and text from outside made fit for one.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/text.h>

#include <algorithm>
#include <cstring>
#include <new>

ISTHMUS_BEGIN

namespace detail {

void TextBuffer::append(const char* text, std::size_t size) noexcept {
    if (size > capacity_ - size_) {
        constexpr std::size_t least = 128;  // most messages have a line or two
        const std::size_t capacity = (std::max)({least, size_ + size, 2 * capacity_});
        void* grown = failed_ ? nullptr : std::realloc(data_, capacity);
        if (grown == nullptr) {
            failed_ = true;
            return;
        }
        data_ = static_cast<char*>(grown);
        capacity_ = capacity;
    }
    if (size != 0) std::memcpy(data_ + size_, text, size);
    size_ += size;
}

ISTHMUS_RARE void Piece::append_c_text(TextBuffer& out, const void* text, Number) noexcept {
    out += static_cast<const char*>(text);
}
ISTHMUS_RARE void Piece::append_text(TextBuffer& out, const void* text, Number length) noexcept {
    out.append(static_cast<const char*>(text), static_cast<std::size_t>(length));
}
ISTHMUS_RARE void Piece::append_buffer(TextBuffer& out, const void* text, Number) noexcept {
    const auto& buffer = *static_cast<const TextBuffer*>(text);
    out += buffer.view();
    if (buffer.failed()) out.fail();
}
ISTHMUS_RARE void Piece::append_unsigned(TextBuffer& out, const void*, Number value) noexcept {
    char digits[20];
    char* at = digits + sizeof digits;
    do *--at = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    out.append(at, static_cast<std::size_t>(digits + sizeof digits - at));
}
ISTHMUS_RARE void Piece::append_signed(TextBuffer& out, const void*, Number value) noexcept {
    const bool negative = static_cast<long long>(value) < 0;
    if (negative) out += '-';
    append_unsigned(out, nullptr, negative ? 0 - value : value);
}

TextBuffer compose(const char* words, std::initializer_list<Piece> values) noexcept {
    TextBuffer text;
    for (const Piece& value : values) {
        const char* mark = std::strchr(words, '%');
        text.append(words, static_cast<std::size_t>(mark - words));
        value.append_to(text);
        words = mark + 1;
    }
    text += words;
    return text;
}
std::string concat(std::initializer_list<Piece> pieces) { return compose(pieces).str(); }
TextBuffer compose(std::initializer_list<Piece> pieces) noexcept {
    TextBuffer out;
    for (const Piece& piece : pieces) piece.append_to(out);
    return out;
}

ISTHMUS_RARE void Message::append(TextBuffer& out, const void* data, Piece::Number size) noexcept {
    if (size == up_to_nul) {
        out += static_cast<const char*>(data);
    } else if (size == of_buffer) {
        Piece(*static_cast<const TextBuffer*>(data)).append_to(out);
    } else if (size < of_pieces) {
        out.append(static_cast<const char*>(data), static_cast<std::size_t>(size));
    } else {
        for (Piece::Number i = 0; i < (size & ~of_pieces); ++i) static_cast<const Piece*>(data)[i].append_to(out);
    }
}

ISTHMUS_RARE Piece hex(Piece::Number value) noexcept {
    constexpr auto append = [](TextBuffer& out, const void*, Piece::Number number) noexcept {
        char buffer[18];
        char* at = buffer + sizeof buffer;
        do *--at = "0123456789abcdef"[number & 15];
        while ((number >>= 4) != 0);
        *--at = 'x';
        *--at = '0';
        out.append(at, static_cast<std::size_t>(buffer + sizeof buffer - at));
    };
    return {append, nullptr, value};
}

ISTHMUS_RARE Piece sizes_text(const std::int64_t* values, int count) noexcept {
    constexpr auto append = [](TextBuffer& out, const void* numbers, Piece::Number size) noexcept {
        out += '(';
        for (Piece::Number i = 0; i < size; ++i) {
            if (i != 0) out += ", ";
            Piece(static_cast<const std::int64_t*>(numbers)[i]).append_to(out);
        }
        if (size == 1) out += ',';
        out += ')';
    };
    return {append, values, static_cast<Piece::Number>(count)};
}

/// How many bytes the character at the beginning of `text` takes (RFC 3629: no surrogates, nothing longer than it has
/// to be, nothing past U+10FFFF); 0 if the bytes are not UTF-8, and for an empty text.
static std::size_t utf8_character(std::string_view text) noexcept {
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    if (text.empty()) return 0;
    const std::uint32_t first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC0 || first >= 0xF8 || length > text.size()) return 0;
    std::uint32_t point = first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return 0;
        point = point << 6 | (byte(i) & 0x3F);
    }
    const bool is_point = point >= least[length] && point <= 0x10FFFF && (point < 0xD800 || point >= 0xE000);
    return is_point ? length : 0;
}

bool is_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = utf8_character(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

/// A byte that would end a C string, or tell a terminal to do something.
static constexpr bool is_control(unsigned char byte) noexcept {
    return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

void append_printable(TextBuffer& out, std::string_view text) noexcept {
    constexpr char digits[] = "0123456789abcdef";
    while (!text.empty()) {
        // Nearly every text is ASCII throughout: it is appended at once.
        std::size_t plain = 0;
        while (plain < text.size() && text[plain] >= 0x20 && text[plain] < 0x7f) ++plain;
        out += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty()) return;
        const auto first = static_cast<unsigned char>(text.front());
        const std::size_t length = is_control(first) ? 0 : utf8_character(text);
        const char escaped[] = {'\\', 'x', digits[first >> 4], digits[first & 15]};
        out += length == 0 ? std::string_view(escaped, sizeof escaped) : text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
}
std::string printable(const std::string& text) {
    TextBuffer out;
    append_printable(out, text);
    return out.str();
}

}  // namespace detail

ISTHMUS_END
