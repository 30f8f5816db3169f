// Text of messages: pieces put together by one function, and text from outside made fit for one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

struct DType;
struct Device;

namespace detail {

/// A text as pointer and length, for the structs that a module of the stable ABI and its backend both read: the C++
/// libraries lay std::string_view out in different ways.
struct TextRef {
    const char* data;
    std::size_t size;

    TextRef() noexcept = default;
    constexpr TextRef(const char* data_, std::size_t size_) noexcept : data(data_), size(size_) {}
    constexpr TextRef(std::string_view text) noexcept : TextRef(text.data(), text.size()) {}

    constexpr operator std::string_view() const noexcept { return {data, size}; }
    constexpr bool empty() const noexcept { return size == 0; }
    friend constexpr bool operator==(TextRef a, TextRef b) noexcept {
        return std::string_view(a) == std::string_view(b);
    }
    friend constexpr bool operator==(TextRef a, std::string_view b) noexcept { return std::string_view(a) == b; }
};

/// Text that is being put together, in malloc's memory. Nothing here throws: when memory is out, `failed()` is true
/// from then on, and what was there stays. Part of the ABI (docs/abi.md).
class TextBuffer {
public:
    TextBuffer() noexcept = default;
    TextBuffer(TextBuffer&& other) noexcept { swap(other); }
    TextBuffer& operator=(TextBuffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~TextBuffer() { std::free(data_); }

    void append(const char* text, std::size_t size) noexcept;
    TextBuffer& operator+=(std::string_view text) noexcept { return append(text.data(), text.size()), *this; }
    TextBuffer& operator+=(char c) noexcept { return append(&c, 1), *this; }

    bool failed() const noexcept { return failed_; }
    void fail() noexcept { failed_ = true; }
    // Of a char* the compiler would check whether it is an iterator.
    std::string_view view() const noexcept { return {static_cast<const char*>(data_), size_}; }
    /// The text; throws std::bad_alloc if a part of it is missing.
    std::string str() const {
        if (failed_) throw std::bad_alloc();
        return std::string(view());
    }

private:
    void swap(TextBuffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        std::swap(failed_, other.failed_);
    }

    char* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
    bool failed_ = false;
};

/// A piece of a message: text, which must live until concat() is done, a number, or anything with a function that
/// appends it.
class Piece {
public:
    using Number = unsigned long long;
    using Append = void (*)(TextBuffer& out, const void* data, Number value) noexcept;

    Piece(Append append, const void* data, Number value) noexcept : append_(append), data_(data), value_(value) {}
    Piece(const char* text) noexcept : Piece(append_c_text, text, 0) {}
    Piece(std::string_view text) noexcept : Piece(append_text, text.data(), text.size()) {}
    Piece(TextRef text) noexcept : Piece(append_text, text.data, text.size) {}
    Piece(const std::string& text) noexcept : Piece(append_text, text.data(), text.size()) {}
    /// A text for which there was no memory takes the memory of what it is joined to, too.
    Piece(const TextBuffer& text) noexcept : Piece(append_buffer, &text, 0) {}
    Piece(int number) noexcept : Piece(static_cast<long long>(number)) {}
    Piece(long number) noexcept : Piece(static_cast<long long>(number)) {}
    Piece(long long number) noexcept : Piece(append_signed, nullptr, static_cast<Number>(number)) {}
    Piece(unsigned number) noexcept : Piece(static_cast<Number>(number)) {}
    Piece(unsigned long number) noexcept : Piece(static_cast<Number>(number)) {}
    Piece(Number number) noexcept : Piece(append_unsigned, nullptr, number) {}
    /// The name of a dtype or device (isthmus/core/dtype.h, isthmus/core/device.h).
    Piece(DType dtype) noexcept;
    Piece(Device device) noexcept;

    void append_to(TextBuffer& out) const noexcept { append_(out, data_, value_); }

private:
    friend struct BackendAccess;
    static void append_c_text(TextBuffer& out, const void* text, Number) noexcept;
    static void append_text(TextBuffer& out, const void* text, Number length) noexcept;
    static void append_buffer(TextBuffer& out, const void* text, Number) noexcept;
    static void append_unsigned(TextBuffer& out, const void*, Number value) noexcept;
    static void append_signed(TextBuffer& out, const void*, Number value) noexcept;

    Append append_;
    const void* data_;
    Number value_;
};

/// The pieces joined: a chain of std::string's `+` compiles to a temporary and its clean-up for each piece, which used
/// to be a large part of a module's code.
ISTHMUS_COLD std::string concat(std::initializer_list<Piece> pieces);
/// The same for functions that must not throw: the text may be one that `failed()`, and so is an error that is made of
/// it.
ISTHMUS_COLD TextBuffer compose(std::initializer_list<Piece> pieces) noexcept;
/// The same of a text in which each % stands for a value: less code than a piece for the words between two values.
ISTHMUS_COLD TextBuffer compose(const char* words, std::initializer_list<Piece> values) noexcept;

/// The text of an error as it is passed to the function that makes the error: one text, or pieces that are joined
/// there, so that the caller has no std::string to clean up. For parameters only: it refers to temporaries of the
/// caller's expression.
class Message {
public:
    Message(const char* text) noexcept : data_(text), size_(up_to_nul) {}
    Message(std::string_view text) noexcept : data_(text.data()), size_(text.size()) {}
    Message(const std::string& text) noexcept : data_(text.data()), size_(text.size()) {}
    Message(const TextBuffer& text) noexcept : data_(&text), size_(of_buffer) {}
    Message(std::initializer_list<Piece> pieces) noexcept : data_(pieces.begin()), size_(of_pieces | pieces.size()) {}

    operator Piece() const noexcept { return {append, data_, size_}; }
    void append_to(TextBuffer& out) const noexcept { append(out, data_, size_); }

private:
    static constexpr Piece::Number of_pieces = Piece::Number{1} << 63;  // beside their number
    static constexpr Piece::Number up_to_nul = ~Piece::Number{0};
    static constexpr Piece::Number of_buffer = up_to_nul - 1;
    friend struct BackendAccess;

    static void append(TextBuffer& out, const void* data, Piece::Number size) noexcept;

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
ISTHMUS_COLD std::string printable(const std::string& text);
/// The same of a text whose memory may be out.
void append_printable(TextBuffer& out, std::string_view text) noexcept;

}  // namespace detail

ISTHMUS_END
