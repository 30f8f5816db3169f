// Type strings of the array interfaces, read and written without Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <string>
#include <string_view>

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

struct TypestrLetter {
    char letter;
    DLDataTypeCode code;
};
inline constexpr TypestrLetter typestr_letters[] = {
    {'b', kDLBool}, {'i', kDLInt}, {'u', kDLUInt}, {'f', kDLFloat}, {'c', kDLComplex},
};
inline constexpr char foreign_byte_order = PY_LITTLE_ENDIAN ? '>' : '<';
inline constexpr char native_byte_order = PY_LITTLE_ENDIAN ? '<' : '>';

/// The dtype of a typestr ("<f4", "|b1"). False if it has none; `foreign_order` says that only the byte order is the
/// reason, and `out` what it is in this machine's.
inline bool parse_typestr(std::string_view typestr, DType& out, bool& foreign_order) noexcept {
    foreign_order = false;
    if (typestr.size() < 3 || typestr.size() > 4) return false;
    int itemsize = 0;
    for (char c : typestr.substr(2)) {
        if (c < '0' || c > '9') return false;
        itemsize = 10 * itemsize + (c - '0');
    }
    int code = -1;
    for (const TypestrLetter& row : typestr_letters)
        if (row.letter == typestr[1]) code = row.code;
    if (code < 0 || itemsize == 0 || itemsize > 31) return false;
    if (std::string_view("<>|=").find(typestr[0]) == std::string_view::npos) return false;
    out = DType(code, 8 * itemsize);
    if (!out.is_valid() || (code == kDLBool && itemsize != 1)) return false;
    foreign_order = typestr[0] == foreign_byte_order && itemsize > 1;
    return !foreign_order;
}

/// Whether NumPy has a type of this width: most readers of a typestr pass it to NumPy.
inline bool numpy_has_width(DType dtype) noexcept {
    const std::int64_t itemsize = dtype.itemsize();
    const bool is_long_double = dtype.code == kDLFloat && itemsize == sizeof(long double);
    const std::int64_t most = dtype.code == kDLComplex ? 16 : 8;
    return (itemsize & (itemsize - 1)) == 0 && (itemsize <= most || is_long_double) && dtype != complex32;
}

/// "<f4"; empty if the dtype has no typestr.
inline TextBuffer typestr_of(DType dtype) noexcept {
    if (dtype.lanes() != 1 || dtype.is_subbyte() || !numpy_has_width(dtype)) return {};
    for (const TypestrLetter& row : typestr_letters) {
        if (row.code != dtype.code) continue;
        const char kind[] = {dtype.itemsize() == 1 ? '|' : native_byte_order, row.letter, '\0'};
        return compose({kind, dtype.itemsize()});
    }
    return {};
}

}  // namespace detail

ISTHMUS_END
