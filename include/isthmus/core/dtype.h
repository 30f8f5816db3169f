// DType: what one element is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <isthmus/core/config.h>
#include <isthmus/core/text.h>

ISTHMUS_BEGIN

/// The type of one element: a code (integer, float, …), its width in bits, and the number of lanes of a vector type.
/// Layout-compatible with `DLDataType` (DLPack 1.3, dlpack.h).
struct DType {
    std::uint8_t code;         ///< DLPack's code: kDLInt, kDLFloat, kDLBfloat, …
    std::uint8_t bit_count;    ///< bits of one lane
    std::uint16_t lane_count;  ///< 1, or the lanes of a vector type

    /// float32.
    constexpr DType() noexcept : code(kDLFloat), bit_count(32), lane_count(1) {}
    /// A number too large for its field makes the dtype invalid, rather than another one.
    constexpr DType(int code_, int bits, int lanes = 1) noexcept
        : code(code_ >= 0 && code_ <= 255 ? static_cast<std::uint8_t>(code_) : std::uint8_t{255}),
          bit_count(bits >= 0 && bits <= 255 ? static_cast<std::uint8_t>(bits) : std::uint8_t{0}),
          lane_count(lanes >= 0 && lanes <= 65535 ? static_cast<std::uint16_t>(lanes) : std::uint16_t{0}) {}
    /// The same dtype as DLPack's struct.
    constexpr DType(DLDataType d) noexcept : code(d.code), bit_count(d.bits), lane_count(d.lanes) {}
    /// DLPack's own struct, for a C function that takes one.
    constexpr operator DLDataType() const noexcept { return DLDataType{code, bit_count, lane_count}; }

    /// Bits of one lane.
    constexpr int bits() const noexcept { return bit_count; }
    /// 1, or the lanes of a vector type.
    constexpr int lanes() const noexcept { return lane_count; }
    /// Bits of one element, all lanes together.
    constexpr std::int64_t element_bits() const noexcept { return std::int64_t{bit_count} * lane_count; }
    /// Bytes of one element, rounded up to whole bytes (1 for a 4-bit type).
    constexpr std::int64_t itemsize() const noexcept { return (element_bits() + 7) / 8; }
    /// True when an element does not fill whole bytes, so that several of them may share one.
    constexpr bool is_subbyte() const noexcept { return element_bits() % 8 != 0; }
    /// Bytes to which the address of an element must be aligned for the C++ type of one lane to be read in place.
    constexpr std::int64_t alignment() const noexcept {
        const int component = code == kDLComplex ? bit_count / 2 : bit_count;
        const int bytes = component / 8;
        return bytes > 1 && (bytes & (bytes - 1)) == 0 && bytes <= 16 ? bytes : 1;
    }

    /// "float32", "bfloat16", "float8_e4m3fn", "bool"; "float32x4" with 4 lanes.
    std::string name() const;
    /// False for a code this DLPack version does not define, or bits and lanes that contradict the code.
    constexpr bool is_valid() const noexcept;
    /// The dtype called `name` (as name() writes it); false when there is none.
    static bool parse(std::string_view name, DType& out) noexcept;

    friend constexpr bool operator==(DType a, DType b) noexcept {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    }
};

static_assert(sizeof(DType) == sizeof(DLDataType) && alignof(DType) <= alignof(DLDataType));

/// The dtypes by their names. A width that the name does not say is in the table of DLPack 1.3 (dlpack.h).
inline constexpr DType int8{kDLInt, 8}, int16{kDLInt, 16}, int32{kDLInt, 32}, int64{kDLInt, 64};
inline constexpr DType uint8{kDLUInt, 8}, uint16{kDLUInt, 16}, uint32{kDLUInt, 32}, uint64{kDLUInt, 64};
inline constexpr DType float16{kDLFloat, 16}, float32{kDLFloat, 32}, float64{kDLFloat, 64};
inline constexpr DType bfloat16{kDLBfloat, 16};
inline constexpr DType complex32{kDLComplex, 32}, complex64{kDLComplex, 64}, complex128{kDLComplex, 128};
inline constexpr DType boolean{kDLBool, 8};
inline constexpr DType float8_e3m4{kDLFloat8_e3m4, 8}, float8_e4m3{kDLFloat8_e4m3, 8},
    float8_e4m3b11fnuz{kDLFloat8_e4m3b11fnuz, 8}, float8_e4m3fn{kDLFloat8_e4m3fn, 8},
    float8_e4m3fnuz{kDLFloat8_e4m3fnuz, 8}, float8_e5m2{kDLFloat8_e5m2, 8}, float8_e5m2fnuz{kDLFloat8_e5m2fnuz, 8},
    float8_e8m0fnu{kDLFloat8_e8m0fnu, 8};
inline constexpr DType float6_e2m3fn{kDLFloat6_e2m3fn, 6}, float6_e3m2fn{kDLFloat6_e3m2fn, 6};
inline constexpr DType float4_e2m1fn{kDLFloat4_e2m1fn, 4};

namespace detail {

/// One row per DLPack type code: the name, and the width it fixes (0: the name carries it, and is_valid() says which
/// there are).
struct DTypeCode {
    std::string_view name;
    std::uint8_t fixed_bits;
    bool is_floating = false;
};
inline constexpr DTypeCode dtype_codes[] = {
    {"int", 0},
    {"uint", 0},
    {"float", 0, true},
    {"opaque", 0},
    {"bfloat", 0, true},
    {"complex", 0},
    {"bool", 0},
    {"float8_e3m4", 8, true},
    {"float8_e4m3", 8, true},
    {"float8_e4m3b11fnuz", 8, true},
    {"float8_e4m3fn", 8, true},
    {"float8_e4m3fnuz", 8, true},
    {"float8_e5m2", 8, true},
    {"float8_e5m2fnuz", 8, true},
    {"float8_e8m0fnu", 8, true},
    {"float6_e2m3fn", 6, true},
    {"float6_e3m2fn", 6, true},
    {"float4_e2m1fn", 4, true},
};
inline constexpr int dtype_code_count = sizeof(dtype_codes) / sizeof(dtype_codes[0]);

/// std::complex<float> and similar types, recognised by their interface so that <complex> (and with it <sstream>) is
/// not included.
template <class T>
concept ComplexLike = requires(const T& z) {
    typename T::value_type;
    requires std::is_floating_point_v<typename T::value_type>;
    requires sizeof(T) == 2 * sizeof(typename T::value_type);
    { z.real() } -> std::convertible_to<typename T::value_type>;
    { z.imag() } -> std::convertible_to<typename T::value_type>;
};

template <class T>
struct dtype_for {
    static constexpr bool known = false;
};

template <class T>
    requires std::is_arithmetic_v<T>
struct dtype_for<T> {
    static constexpr bool known = true;
    static constexpr DType value{std::is_same_v<T, bool>       ? kDLBool
                                 : std::is_floating_point_v<T> ? kDLFloat
                                 : std::is_signed_v<T>         ? kDLInt
                                                               : kDLUInt,
                                 8 * sizeof(T)};
};

template <>
struct dtype_for<std::byte> {
    static constexpr bool known = true;
    static constexpr DType value{kDLUInt, 8};
};

template <ComplexLike T>
    requires(8 * sizeof(T) < 256)
struct dtype_for<T> {
    static constexpr bool known = true;
    static constexpr DType value{kDLComplex, 8 * sizeof(T)};
};

}  // namespace detail

/// An element of dtype bool whose byte may be any number, all but 0 of which mean true, as NumPy and PyTorch read them
/// (`np.uint8` memory seen as `np.bool_`). A C++ `bool` is 0 or 1: reading another byte as one is undefined.
struct ByteBool {
    std::uint8_t byte;  ///< 0 for false; any other number for true

    ByteBool() = default;
    /// The byte 0 or 1.
    constexpr ByteBool(bool value) noexcept : byte(value) {}
    /// Whether the byte is not 0.
    constexpr operator bool() const noexcept { return byte != 0; }
};

/// Specialise for your own C++ type (a half, a bfloat16, an fp8): `static constexpr DType value = isthmus::bfloat16;`.
template <class T>
struct dtype_traits {};
template <>
struct dtype_traits<ByteBool> {
    static constexpr DType value = boolean;
};
#if defined(__STDCPP_BFLOAT16_T__)
/// std::bfloat16_t: to the compiler a floating-point type of 16 bits, as std::float16_t is.
template <>
struct dtype_traits<decltype(0.0bf16)> {
    static constexpr DType value = bfloat16;
};
#endif

namespace detail {
template <class T>
concept HasDTypeTraits = requires {
    { dtype_traits<T>::value } -> std::convertible_to<DType>;
};
/// An element that NumPy alone has (isthmus/records.h): its dtype here is opaque bytes.
template <class T>
concept NumpyElement = requires { dtype_traits<std::remove_cv_t<T>>::numpy; };
}  // namespace detail

/// True when `T` can be the element type of a View.
template <class T>
inline constexpr bool has_dtype =
    detail::HasDTypeTraits<std::remove_cv_t<T>> || detail::dtype_for<std::remove_cv_t<T>>::known;

/// The dtype of the C++ type `T`: arithmetic types, std::complex, std::byte (uint8), and whatever specialises
/// dtype_traits.
template <class T>
constexpr DType dtype_of() noexcept {
    using U = std::remove_cv_t<T>;
    static_assert(has_dtype<U>,
                  "isthmus: this C++ type has no dtype; specialise isthmus::dtype_traits for it, or for a struct of "
                  "numbers write ISTHMUS_RECORD (isthmus/records.h)");
    if constexpr (detail::HasDTypeTraits<U>) {
        static_assert(DType(dtype_traits<U>::value).itemsize() == sizeof(U),
                      "isthmus: dtype_traits names a dtype of another size");
        return dtype_traits<U>::value;
    } else if constexpr (detail::dtype_for<U>::known)
        return detail::dtype_for<U>::value;
    else
        return {};  // the sentence above is the only error
}

constexpr bool DType::is_valid() const noexcept {
    if (code >= detail::dtype_code_count || bit_count == 0 || lane_count == 0) return false;
    const int fixed = detail::dtype_codes[code].fixed_bits;
    if (fixed != 0) return bit_count == fixed;
    switch (code) {
        case kDLInt:
        case kDLUInt:
        case kDLOpaqueHandle:
            return (bit_count & (bit_count - 1)) == 0;
        case kDLBool:
            return bit_count == 8 || bit_count == 1;
        case kDLFloat:
            return bit_count == 16 || bit_count == 32 || bit_count == 64 || bit_count == 80 || bit_count == 96 ||
                   bit_count == 128;
        case kDLBfloat:
            return bit_count == 16;
        case kDLComplex:
            return bit_count == 32 || bit_count == 64 || bit_count == 128 || bit_count == 192;
        default:
            return false;
    }
}

namespace detail {
constexpr bool every_code_has_a_width() {
    for (int code = 0; code < dtype_code_count; ++code) {
        bool found = false;
        for (int bits = 1; bits < 256; ++bits) found = found || DType(code, bits).is_valid();
        if (!found) return false;
    }
    return true;
}
static_assert(every_code_has_a_width(),
              "isthmus: a code without a width of its own needs its widths in DType::is_valid()");
}  // namespace detail

ISTHMUS_END
