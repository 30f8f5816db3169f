// Format strings of the buffer protocol (PEP 3118), read and written without Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <array>
#include <string_view>

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

/// One kind of number. If several letters name the same dtype, the first one is written.
struct FormatLetter {
    const char* letter;
    DLDataTypeCode code;
    int bytes;  ///< of a native one
    int standard_bytes = bytes;
    const char* complex = nullptr;  ///< two of them as one complex number, as NumPy writes it
};
inline constexpr FormatLetter format_letters[] = {
    {.letter = "?", .code = kDLBool, .bytes = 1},
    {.letter = "b", .code = kDLInt, .bytes = 1},
    {.letter = "h", .code = kDLInt, .bytes = 2},
    {.letter = "i", .code = kDLInt, .bytes = 4},
    {.letter = "l", .code = kDLInt, .bytes = sizeof(long), .standard_bytes = 4},
    {.letter = "q", .code = kDLInt, .bytes = 8},
    {.letter = "n", .code = kDLInt, .bytes = sizeof(Py_ssize_t)},
    {.letter = "B", .code = kDLUInt, .bytes = 1},
    {.letter = "c", .code = kDLUInt, .bytes = 1},  // a byte of text
    {.letter = "H", .code = kDLUInt, .bytes = 2},
    {.letter = "I", .code = kDLUInt, .bytes = 4},
    {.letter = "L", .code = kDLUInt, .bytes = sizeof(long), .standard_bytes = 4},
    {.letter = "Q", .code = kDLUInt, .bytes = 8},
    {.letter = "N", .code = kDLUInt, .bytes = sizeof(std::size_t)},
    {.letter = "e", .code = kDLFloat, .bytes = 2},
    {.letter = "f", .code = kDLFloat, .bytes = 4, .complex = "Zf"},
    {.letter = "d", .code = kDLFloat, .bytes = 8, .complex = "Zd"},
    {.letter = "g", .code = kDLFloat, .bytes = sizeof(long double), .complex = "Zg"},
};

/// The number of a letter's row in format_letters, by its code; -1 for every other character.
inline constexpr auto format_letter_rows = [] {
    std::array<signed char, 128> rows{};
    rows.fill(-1);
    signed char number = 0;
    for (const FormatLetter& row : format_letters) rows[static_cast<unsigned char>(row.letter[0])] = number++;
    return rows;
}();
constexpr const FormatLetter* find_format_letter(char letter) noexcept {
    const auto code = static_cast<unsigned char>(letter);
    const int number = code < format_letter_rows.size() ? format_letter_rows[code] : -1;
    return number >= 0 ? &format_letters[number] : nullptr;
}

/// The dtype of a format of one letter in this machine's byte order, which is that of nearly every buffer; false for
/// all others.
inline bool parse_native_letter(const char* format, Py_ssize_t itemsize, DType& out) noexcept {
    if (*format == '=' || *format == '@' || *format == (PY_LITTLE_ENDIAN ? '<' : '>')) ++format;
    const FormatLetter* row = format[0] != '\0' && format[1] == '\0' ? find_format_letter(format[0]) : nullptr;
    if (row == nullptr || row->bytes != itemsize) return false;
    out = DType(row->code, 8 * row->bytes);
    return true;
}
/// The dtype of a format of one element. False for structures, repeats, strings, objects and another byte order;
/// `foreign_order` is set for the last. The letter gives the kind of number; the width is the exporter's itemsize,
/// which differs between a native and a standard 'l'.
inline bool parse_buffer_format(std::string_view format, Py_ssize_t itemsize, DType& out,
                                bool& foreign_order) noexcept {
    foreign_order = false;
    bool foreign = false;
    if (!format.empty()) {
        switch (const char order = format.front()) {
            case '@':
            case '=':
            case '<':
            case '>':
            case '!':
            case '^':
            case '|':
                foreign = PY_LITTLE_ENDIAN ? order == '>' || order == '!' : order == '<';
                format.remove_prefix(1);
                break;
            default:
                break;
        }
    }
    const bool complex = format.size() == 2 && format.front() == 'Z';
    if (complex) format.remove_prefix(1);
    if (format.size() != 1 || itemsize < 1 || (complex && itemsize % 2 != 0)) return false;
    const FormatLetter* row = find_format_letter(format.front());
    if (row == nullptr) return false;
    const Py_ssize_t width = complex ? itemsize / 2 : itemsize;
    if ((width != row->bytes && width != row->standard_bytes) || (complex && row->complex == nullptr) ||
        8 * itemsize > 255)
        return false;
    foreign_order = foreign && width > 1;
    if (!foreign_order) out = DType(complex ? kDLComplex : row->code, static_cast<int>(8 * itemsize));
    return !foreign_order;
}

/// The format of a dtype; NULL if the format language has none.
inline const char* buffer_format(DType dtype) noexcept {
    if (dtype.lanes() != 1) return nullptr;
    const bool complex = dtype.code == kDLComplex;
    for (const FormatLetter& row : format_letters) {
        if (dtype.bits() != (complex ? 2 : 1) * 8 * row.bytes) continue;
        if (complex && row.complex != nullptr) return row.complex;
        if (row.code == dtype.code) return row.letter;
    }
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
