// Text of messages: pieces put together by one function, and text from outside made fit for one.
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

/// A piece of a message: text, which must live until concat() is done, a number, or anything with a function that
/// appends it.
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
    static void append_c_text(std::string& out, const void* text, Number);
    static void append_text(std::string& out, const void* text, Number length);
    static void append_unsigned(std::string& out, const void*, Number value);
    static void append_signed(std::string& out, const void*, Number value);

    Append append_;
    const void* data_;
    Number value_;
};

/// The pieces joined. All messages are made by this one function: a chain of std::string's `+` compiles to a temporary
/// and its clean-up for each piece, which used to be a large part of a module's code.
ISTHMUS_COLD std::string concat(std::initializer_list<Piece> pieces);

/// The text of an error as it is passed to the function that makes the error: one text, or pieces that are joined
/// there, so that the caller has no std::string to clean up. For parameters only: it refers to temporaries of the
/// caller's expression.
class Message {
public:
    Message(const char* text) noexcept : data_(text), size_(up_to_nul) {}
    Message(const std::string& text) noexcept : data_(text.data()), size_(text.size()) {}
    Message(std::initializer_list<Piece> pieces) noexcept : data_(pieces.begin()), size_(of_pieces | pieces.size()) {}

    operator Piece() const noexcept { return {append, data_, size_}; }

private:
    static constexpr Piece::Number of_pieces = Piece::Number{1} << 63;  // beside their number
    static constexpr Piece::Number up_to_nul = ~Piece::Number{0};

    static void append(std::string& out, const void* data, Piece::Number size);

    const void* data_;
    Piece::Number size_;
};
// Two words are passed in registers. For a third the callers would make room on the stack, even without an error.
static_assert(sizeof(Message) <= 2 * sizeof(Piece::Number));

/// "0x7f00".
Piece hex(Piece::Number value) noexcept;
inline Piece hex(const void* address) noexcept {
    return hex(static_cast<Piece::Number>(reinterpret_cast<std::uintptr_t>(address)));
}

/// "(2, 3)": sizes or strides.
Piece sizes_text(const std::int64_t* values, int count) noexcept;

/// Whether the bytes are UTF-8 (RFC 3629: no surrogates, nothing longer than it has to be, nothing past U+10FFFF).
bool is_utf8(std::string_view text) noexcept;
/// The text with "\x1b" in place of a control character (all but line ends and tabs) and of a byte that is not UTF-8:
/// names in files, keys and other exceptions' texts may hold any bytes.
ISTHMUS_COLD std::string printable(std::string text);

}  // namespace detail

ISTHMUS_END
