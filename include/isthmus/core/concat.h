// Messages: pieces of text and numbers, put together by one function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

struct DType;
struct Device;

namespace detail {

/// A piece of a message: text, which must live until concat() is done, a number, or anything with a function that appends it.
class Piece {
public:
    using Number = unsigned long long;
    using Append = void (*)(std::string& out, const void* data, Number value);

    Piece(Append append, const void* data, Number value) noexcept : append_(append), data_(data), value_(value) {}
    Piece(const char* text) noexcept : Piece(append_c_text, text, 0) {}
    Piece(std::string_view text) noexcept : Piece(append_text, text.data(), text.size()) {}
    Piece(const std::string& text) noexcept : Piece(append_text, text.data(), text.size()) {}
    Piece(int number) noexcept : Piece(static_cast<long long>(number)) {}
    Piece(long number) noexcept : Piece(static_cast<long long>(number)) {}
    Piece(long long number) noexcept : Piece(append_signed, nullptr, static_cast<Number>(number)) {}
    Piece(unsigned number) noexcept : Piece(static_cast<Number>(number)) {}
    Piece(unsigned long number) noexcept : Piece(static_cast<Number>(number)) {}
    Piece(Number number) noexcept : Piece(append_unsigned, nullptr, number) {}
    /// The name of a dtype or device (isthmus/core/dtype.h, isthmus/core/device.h).
    Piece(DType dtype) noexcept;
    Piece(Device device) noexcept;

    void append_to(std::string& out) const { append_(out, data_, value_); }

private:
    ISTHMUS_RARE static void append_c_text(std::string& out, const void* text, Number) {
        out += static_cast<const char*>(text);
    }
    ISTHMUS_RARE static void append_text(std::string& out, const void* text, Number length) {
        out.append(static_cast<const char*>(text), static_cast<std::size_t>(length));
    }
    ISTHMUS_RARE static void append_unsigned(std::string& out, const void*, Number value) {
        char digits[20];
        char* at = digits + sizeof digits;
        do *--at = static_cast<char>('0' + value % 10);
        while ((value /= 10) != 0);
        out.append(at, static_cast<std::size_t>(digits + sizeof digits - at));
    }
    ISTHMUS_RARE static void append_signed(std::string& out, const void*, Number value) {
        const bool negative = static_cast<long long>(value) < 0;
        if (negative) out.push_back('-');
        append_unsigned(out, nullptr, negative ? 0 - value : value);
    }

    Append append_;
    const void* data_;
    Number value_;
};

/// The pieces joined. All messages are made by this one function: a chain of std::string's `+` compiles to a temporary and its
/// clean-up for each piece, which used to be a large part of a module's code.
ISTHMUS_COLD inline std::string concat(std::initializer_list<Piece> pieces) {
    std::string out;
    for (const Piece& piece : pieces) piece.append_to(out);
    return out;
}

/// The text of an error as it is passed to the function that makes the error: one text, or pieces that are joined there, so
/// that the caller has no std::string to clean up. For parameters only: it refers to temporaries of the caller's expression.
class Message {
public:
    Message(const char* text) noexcept : data_(text), size_(up_to_nul) {}
    Message(const std::string& text) noexcept : data_(text.data()), size_(text.size()) {}
    Message(std::initializer_list<Piece> pieces) noexcept : data_(pieces.begin()), size_(of_pieces | pieces.size()) {}

    operator Piece() const noexcept { return {append, data_, size_}; }

private:
    static constexpr Piece::Number of_pieces = Piece::Number{1} << 63;  // beside their number
    static constexpr Piece::Number up_to_nul = ~Piece::Number{0};

    ISTHMUS_RARE static void append(std::string& out, const void* data, Piece::Number size) {
        if (size == up_to_nul) {
            out += static_cast<const char*>(data);
        } else if (size < of_pieces) {
            out.append(static_cast<const char*>(data), static_cast<std::size_t>(size));
        } else {
            for (Piece::Number i = 0; i < (size & ~of_pieces); ++i) static_cast<const Piece*>(data)[i].append_to(out);
        }
    }

    const void* data_;
    Piece::Number size_;
};
// Two words are passed in registers. For a third the callers would make room on the stack, also where there is no error.
static_assert(sizeof(Message) <= 2 * sizeof(Piece::Number));

/// "0x7f00".
ISTHMUS_RARE inline void append_hex(std::string& out, const void*, Piece::Number value) {
    char buffer[18];
    char* at = buffer + sizeof buffer;
    do *--at = "0123456789abcdef"[value & 15];
    while ((value >>= 4) != 0);
    *--at = 'x';
    *--at = '0';
    out.append(at, static_cast<std::size_t>(buffer + sizeof buffer - at));
}
inline Piece hex(Piece::Number value) noexcept { return {append_hex, nullptr, value}; }
inline Piece hex(const void* address) noexcept {
    return hex(static_cast<Piece::Number>(reinterpret_cast<std::uintptr_t>(address)));
}

/// "(2, 3)": sizes or strides.
ISTHMUS_RARE inline void append_sizes(std::string& out, const void* values, Piece::Number count) {
    out += '(';
    for (Piece::Number i = 0; i < count; ++i) {
        if (i != 0) out += ", ";
        Piece(static_cast<const std::int64_t*>(values)[i]).append_to(out);
    }
    if (count == 1) out += ',';
    out += ')';
}
inline Piece sizes_text(const std::int64_t* values, int count) noexcept {
    return {append_sizes, values, static_cast<Piece::Number>(count)};
}

}  // namespace detail

ISTHMUS_END
