// Floating-point elements of 8 and 16 bits as C++ types: the compiler's own if it has them, else types that convert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

/// Which bit patterns are not numbers.
enum class Specials : std::uint8_t {
    ieee,           ///< the largest exponent: infinities and NaNs (IEEE 754)
    nan_at_end,     ///< "fn": all bits but the sign are set; no infinities
    nan_for_minus0  ///< "fnuz": the pattern of -0; no infinities, one zero
};

/// A sign, `exponent` bits that are `bias` too large, `mantissa` bits.
struct FloatFormat {
    int exponent, mantissa, bias;
    Specials specials;

    constexpr std::uint32_t sign() const noexcept { return std::uint32_t{1} << (exponent + mantissa); }
    constexpr std::uint32_t infinity() const noexcept { return sign() - (std::uint32_t{1} << mantissa); }
    constexpr std::uint32_t largest() const noexcept {
        return specials == Specials::ieee ? infinity() - 1 : specials == Specials::nan_at_end ? sign() - 2 : sign() - 1;
    }
    constexpr std::uint32_t nan() const noexcept {
        return specials == Specials::ieee         ? infinity() | std::uint32_t{1} << (mantissa - 1)
               : specials == Specials::nan_at_end ? sign() - 1
                                                  : sign();
    }
};

/// Exact. Without float's own subnormal numbers, which a process may have turned off.
template <FloatFormat f>
constexpr float widen(std::uint32_t bits) noexcept {
    const std::uint32_t magnitude = bits & (f.sign() - 1), sign = (bits & f.sign()) << (31 - f.exponent - f.mantissa);
    if constexpr (f.bias == 127) return std::bit_cast<float>(sign | magnitude << (23 - f.mantissa));
    constexpr std::uint32_t unit = static_cast<std::uint32_t>(127 + 23 + 1 - f.bias - f.mantissa) << 23;
    const std::uint32_t normal = (magnitude << (23 - f.mantissa)) + (static_cast<std::uint32_t>(127 - f.bias) << 23);
    const float subnormal = std::bit_cast<float>(unit | magnitude) - std::bit_cast<float>(unit);
    std::uint32_t value = magnitude >> f.mantissa != 0 ? normal : std::bit_cast<std::uint32_t>(subnormal);
    if constexpr (f.specials == Specials::ieee)
        value = magnitude >= f.infinity() ? 0x7F800000 | (magnitude - f.infinity()) << (23 - f.mantissa) : value;
    else
        value = (f.specials == Specials::nan_at_end ? magnitude : bits) == f.nan() ? 0x7FC00000 : value;
    return std::bit_cast<float>(sign | value);
}

/// To the nearest, of two as near to the even one. A number that is too large becomes infinity, or NaN if there is
/// none.
template <FloatFormat f>
constexpr std::uint32_t narrow(float from) noexcept {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(from), magnitude = u & 0x7FFFFFFF;
    const std::uint32_t sign = u >> 31 << (f.exponent + f.mantissa);
    if (magnitude > 0x7F800000) return f.specials == Specials::nan_for_minus0 ? f.nan() : sign | f.nan();
    const int exponent = static_cast<int>(magnitude >> 23), least = 128 - f.bias;      // of the smallest normal number
    const int places = exponent < least ? least - (exponent == 0 ? 1 : exponent) : 0;  // below it, digits are lost
    const int shift = 23 - f.mantissa + (places < 31 - 23 + f.mantissa ? places : 31 - 23 + f.mantissa);
    const std::uint32_t digits = (magnitude & 0x7FFFFF) | (exponent != 0 ? 0x800000U : 0U);
    const std::uint32_t base = exponent >= least ? static_cast<std::uint32_t>(exponent - least) << f.mantissa : 0;
    const std::uint32_t kept = digits >> shift, half = std::uint32_t{1} << shift >> 1, lost = digits & (2 * half - 1);
    const std::uint32_t rounded =
        base + kept + static_cast<std::uint32_t>(lost > half || (lost == half && shift != 0 && (kept & 1)));
    if (rounded > f.largest())
        return f.specials == Specials::ieee         ? sign | f.infinity()
               : f.specials == Specials::nan_at_end ? sign | f.nan()
                                                    : f.nan();
    return f.specials == Specials::nan_for_minus0 && rounded == 0 ? 0 : sign | rounded;
}

/// A float that rounds on as the number itself would: if digits are lost its last one is odd, which no number half way
/// between two narrower ones is (Boldo and Melquiond, "When double rounding is odd", 2005).
template <class Number>
constexpr float to_odd(Number number) noexcept {
    const float rounded = static_cast<float>(number);
    if constexpr (std::is_integral_v<Number> && sizeof(Number) > 2) {
        return to_odd(static_cast<double>(number));
    } else if constexpr (std::is_floating_point_v<Number> && sizeof(Number) > sizeof(float)) {
        const auto again = static_cast<Number>(rounded);
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(rounded);
        if (again == number || number != number || (bits & 1) != 0) return rounded;
        return std::bit_cast<float>((again < number) == (number > 0) ? bits + 1 : bits - 1);
    }
    return rounded;
}

}  // namespace detail

/// An element of `dtype`: its bits, which widen to float implicitly and are rounded from one explicitly, as
/// the standard's own types do (std::bfloat16_t). Arithmetic is float's.
template <DType dtype, detail::FloatFormat format>
class SmallFloat {
    using Bits = std::conditional_t<dtype.bits() == 8, std::uint8_t, std::uint16_t>;

public:
    SmallFloat() = default;
    /// The nearest number; of two as near the even one. Infinity, or NaN if there is none, for a number that is too
    /// large. (Integers beyond 2**53 are near to double first.)
    template <class Number>
        requires std::is_arithmetic_v<Number>
    constexpr explicit SmallFloat(Number number) noexcept
        : bits_(static_cast<Bits>(detail::narrow<format>(detail::to_odd(number)))) {}
    /// The value, exactly.
    constexpr operator float() const noexcept { return detail::widen<format>(bits_); }

    /// The number with these bits.
    static constexpr SmallFloat from_bits(Bits bits) noexcept {
        SmallFloat made{};
        made.bits_ = bits;
        return made;
    }
    /// The bits of the number.
    constexpr Bits bits() const noexcept { return bits_; }

    /// Calculated in float and near once.
    constexpr SmallFloat& operator+=(float x) noexcept { return *this = SmallFloat(*this + x); }
    constexpr SmallFloat& operator-=(float x) noexcept { return *this = SmallFloat(*this - x); }
    constexpr SmallFloat& operator*=(float x) noexcept { return *this = SmallFloat(*this * x); }
    constexpr SmallFloat& operator/=(float x) noexcept { return *this = SmallFloat(*this / x); }

private:
    Bits bits_;
};

template <DType dtype, detail::FloatFormat format>
struct dtype_traits<SmallFloat<dtype, format>> {
    static constexpr DType value = dtype;
};

namespace detail {
inline constexpr FloatFormat half_format{5, 10, 15, Specials::ieee}, brain_format{8, 7, 127, Specials::ieee};
}

// The standard's types are floating-point types to the compiler, whose widths alone do not tell them apart.
#if defined(__STDCPP_FLOAT16_T__)
using float16_t = decltype(0.0f16);  ///< std::float16_t
#else
/// IEEE half precision.
using float16_t = SmallFloat<float16, detail::half_format>;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
using bfloat16_t = decltype(0.0bf16);  ///< std::bfloat16_t
#else
/// The upper half of a float.
using bfloat16_t = SmallFloat<bfloat16, detail::brain_format>;
#endif
/// The 8-bit formats of DLPack 1.3, by the bits of exponent and mantissa that their names tell.
using float8_e3m4_t = SmallFloat<float8_e3m4, detail::FloatFormat{3, 4, 3, detail::Specials::ieee}>;
using float8_e4m3_t = SmallFloat<float8_e4m3, detail::FloatFormat{4, 3, 7, detail::Specials::ieee}>;
using float8_e4m3fn_t = SmallFloat<float8_e4m3fn, detail::FloatFormat{4, 3, 7, detail::Specials::nan_at_end}>;
using float8_e4m3fnuz_t = SmallFloat<float8_e4m3fnuz, detail::FloatFormat{4, 3, 8, detail::Specials::nan_for_minus0}>;
using float8_e5m2_t = SmallFloat<float8_e5m2, detail::FloatFormat{5, 2, 15, detail::Specials::ieee}>;
using float8_e5m2fnuz_t = SmallFloat<float8_e5m2fnuz, detail::FloatFormat{5, 2, 16, detail::Specials::nan_for_minus0}>;
using float8_e4m3b11fnuz_t =
    SmallFloat<float8_e4m3b11fnuz, detail::FloatFormat{4, 3, 11, detail::Specials::nan_for_minus0}>;

/// A float16_t or bfloat16_t (or an 8-bit type) as kernels written for torch's at::Half and at::BFloat16 use one: made
/// of any number implicitly, and a sum, difference, product or quotient of two of them, or of one and an integer, is
/// one again, calculated in float and rounded; with a float or a double it is a float or a double. As an element it is
/// what T is: View<const ImplicitFloat<float16_t>, 2>.
template <class T>
class ImplicitFloat {
    static_assert(sizeof(T) <= 2 && std::is_convertible_v<T, float>,
                  "isthmus: ImplicitFloat is for the types of isthmus/small_floats.h, as ImplicitFloat<float16_t>");

public:
    ImplicitFloat() = default;
    /// The same number.
    constexpr ImplicitFloat(T number) noexcept : value_(number) {}
    /// The nearest number, as T rounds.
    template <class Number>
        requires std::is_arithmetic_v<Number>
    constexpr ImplicitFloat(Number number) noexcept : value_(T(number)) {}
    /// The value, exactly.
    constexpr operator float() const noexcept { return static_cast<float>(value_); }
    /// The same number as T.
    constexpr T value() const noexcept { return value_; }

    /// The number with the other sign.
    constexpr ImplicitFloat operator-() const noexcept { return -float(*this); }
    /// Calculated in float and rounded once.
    constexpr ImplicitFloat& operator+=(float x) noexcept { return *this = float(*this) + x; }
    constexpr ImplicitFloat& operator-=(float x) noexcept { return *this = float(*this) - x; }
    constexpr ImplicitFloat& operator*=(float x) noexcept { return *this = float(*this) * x; }
    constexpr ImplicitFloat& operator/=(float x) noexcept { return *this = float(*this) / x; }

private:
    T value_;
};

namespace detail {
template <class T>
struct ImplicitOperand {
    static constexpr bool is_implicit = false;
};
template <class T>
struct ImplicitOperand<ImplicitFloat<T>> {
    static constexpr bool is_implicit = true;
};
template <class A>
inline constexpr bool is_implicit_float = ImplicitOperand<A>::is_implicit;
/// One operand is an ImplicitFloat, and the other is the same or a number of the language.
template <class A, class B>
concept ImplicitPair = (is_implicit_float<A> && (std::is_same_v<A, B> || std::is_arithmetic_v<B>)) ||
                       (std::is_arithmetic_v<A> && is_implicit_float<B>);
/// float for an ImplicitFloat and for an integer beside one.
template <class A>
constexpr auto implicit_operand(A number) noexcept {
    if constexpr (std::is_floating_point_v<A>)
        return number;
    else
        return static_cast<float>(number);
}
template <class A, class B>
using ImplicitResult = std::conditional_t<
    std::is_floating_point_v<A>, A,
    std::conditional_t<std::is_floating_point_v<B>, B, std::conditional_t<is_implicit_float<A>, A, B>>>;
}  // namespace detail

/// Of two, or of one and a number: calculated in float, or in a double beside one; rounded if it is an ImplicitFloat.
template <class A, class B>
    requires detail::ImplicitPair<A, B>
constexpr detail::ImplicitResult<A, B> operator+(A a, B b) noexcept {
    return detail::implicit_operand(a) + detail::implicit_operand(b);
}
/// As operator+.
template <class A, class B>
    requires detail::ImplicitPair<A, B>
constexpr detail::ImplicitResult<A, B> operator-(A a, B b) noexcept {
    return detail::implicit_operand(a) - detail::implicit_operand(b);
}
/// As operator+.
template <class A, class B>
    requires detail::ImplicitPair<A, B>
constexpr detail::ImplicitResult<A, B> operator*(A a, B b) noexcept {
    return detail::implicit_operand(a) * detail::implicit_operand(b);
}
/// As operator+.
template <class A, class B>
    requires detail::ImplicitPair<A, B>
constexpr detail::ImplicitResult<A, B> operator/(A a, B b) noexcept {
    return detail::implicit_operand(a) / detail::implicit_operand(b);
}

template <class T>
struct dtype_traits<ImplicitFloat<T>> {
    static constexpr DType value = dtype_of<T>();
};

ISTHMUS_END

/// The limits of the type that it stands for.
template <class T>
class std::numeric_limits<isthmus::ImplicitFloat<T>> : public std::numeric_limits<T> {};

/// The interface of the 8- and 16-bit types if the compiler has none.
template <isthmus::DType dtype, isthmus::detail::FloatFormat format>
class std::numeric_limits<isthmus::SmallFloat<dtype, format>> {
    using T = isthmus::SmallFloat<dtype, format>;
    static constexpr bool is_ieee = format.specials == isthmus::detail::Specials::ieee;
    static constexpr T of(std::uint32_t bits) noexcept { return T::from_bits(static_cast<decltype(T().bits())>(bits)); }

public:
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                          is_bounded = true;
    static constexpr bool has_infinity = is_ieee, has_quiet_NaN = true, has_signaling_NaN = false;
    static constexpr bool is_iec559 = is_ieee, is_modulo = false, traps = false, tinyness_before = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr int radix = 2, digits = format.mantissa + 1, digits10 = format.mantissa * 30103 / 100000;
    static constexpr int max_digits10 = digits * 30103 / 100000 + 2;
    static constexpr int min_exponent = 2 - format.bias;
    static constexpr int max_exponent = static_cast<int>(format.largest() >> format.mantissa) - format.bias + 1;
    static constexpr int min_exponent10 = -((format.bias - 1) * 30103 / 100000);
    static constexpr int max_exponent10 = max_exponent * 30103 / 100000;

    static constexpr T(min)() noexcept { return of(std::uint32_t{1} << format.mantissa); }
    static constexpr T lowest() noexcept { return of(format.sign() | format.largest()); }
    static constexpr T(max)() noexcept { return of(format.largest()); }
    static constexpr T denorm_min() noexcept { return of(1); }
    static constexpr T epsilon() noexcept { return T(1.0F / static_cast<float>(1 << format.mantissa)); }
    static constexpr T round_error() noexcept { return T(0.5F); }
    static constexpr T infinity() noexcept { return of(is_ieee ? format.infinity() : 0); }
    static constexpr T quiet_NaN() noexcept { return of(format.nan()); }
    static constexpr T signaling_NaN() noexcept { return quiet_NaN(); }
};

#include <isthmus/core/sources.h>
