// UTF-8: whether bytes are it, and text from outside made fit for a message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

/// How many bytes the character at the beginning of `text` takes (RFC 3629: no surrogates, nothing longer than it has to be,
/// nothing past U+10FFFF); 0 where the bytes are none, and for an empty text.
inline std::size_t utf8_character(std::string_view text) noexcept {
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

inline bool is_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = utf8_character(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

/// A byte that would end a C string, or tell a terminal to do something.
constexpr bool is_control(unsigned char byte) noexcept { return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F; }

/// The text with "\x1b" in place of a control character (all but line ends and tabs) and of a byte that is no UTF-8: names in
/// files, keys and other exceptions' texts may hold any bytes.
ISTHMUS_COLD inline std::string printable(std::string text) {
    const auto is_plain = [](char c) { return static_cast<signed char>(c) > 0 && !is_control(static_cast<unsigned char>(c)); };
    if (std::all_of(text.begin(), text.end(), is_plain)) return text;
    constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (std::string_view rest = text; !rest.empty();) {
        const auto first = static_cast<unsigned char>(rest.front());
        const std::size_t length = is_control(first) ? 0 : utf8_character(rest);
        if (length == 0) out += {'\\', 'x', digits[first >> 4], digits[first & 15]};
        out += rest.substr(0, length);
        rest.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

}  // namespace detail

ISTHMUS_END
