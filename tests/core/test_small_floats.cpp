// Each format against its definition: a sign, an exponent, digits, and the nearest of all its numbers.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/small_floats.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace {

using isthmus::dtype_of;
using isthmus::SmallFloat;
using isthmus::detail::FloatFormat;
using isthmus::detail::Specials;

using Half = SmallFloat<isthmus::float16, isthmus::detail::half_format>;
using Brain = SmallFloat<isthmus::bfloat16, isthmus::detail::brain_format>;

template <class T>
struct FormatOf;
template <isthmus::DType dtype, FloatFormat format>
struct FormatOf<SmallFloat<dtype, format>> {
    static constexpr FloatFormat value = format;
};

template <class T>
struct SmallFloats : testing::Test {
    static constexpr FloatFormat format = FormatOf<T>::value;
    static constexpr unsigned patterns = 1U << (8 * sizeof(T));

    static T of(unsigned bits) { return T::from_bits(static_cast<decltype(T().bits())>(bits)); }

    /// The number that the bits stand for, by the definition; NaN and infinities by the largest exponent or the one
    /// pattern.
    static double value_of(unsigned bits) {
        const unsigned magnitude = bits & (patterns / 2 - 1), mantissas = 1U << format.mantissa;
        const unsigned exponent = magnitude / mantissas, digits = magnitude % mantissas;
        const double sign = bits >= patterns / 2 ? -1 : 1;
        if (format.specials == Specials::ieee && exponent == (1U << format.exponent) - 1)
            return digits == 0 ? sign * HUGE_VAL : std::nan("");
        if (format.specials == Specials::nan_at_end && magnitude == patterns / 2 - 1) return std::nan("");
        if (format.specials == Specials::nan_for_minus0 && bits == patterns / 2) return std::nan("");
        const int power = static_cast<int>(std::max(exponent, 1U)) - format.bias - format.mantissa;
        return sign * std::ldexp(digits + (exponent != 0 ? mantissas : 0), power);
    }
    /// The values of 0 and more, in order: their place is their pattern.
    static const std::vector<double>& numbers() {
        static const std::vector<double> all = [] {
            std::vector<double> made;
            for (unsigned bits = 0; bits < patterns / 2 && std::isfinite(value_of(bits)); ++bits)
                made.push_back(value_of(bits));
            return made;
        }();
        return all;
    }
    /// The pattern of the number nearest to `x`, not below 0; one past the last where that is nearer to what would
    /// follow.
    static unsigned nearest(double x) {
        std::vector<double> all = numbers();
        all.push_back(2 * all.back() - all[all.size() - 2]);
        const auto above = static_cast<unsigned>(std::lower_bound(all.begin(), all.end(), x) - all.begin());
        if (above == all.size() || above == 0 || all[above] == x) return above;
        const double up = all[above] - x, down = x - all[above - 1];
        return up < down || (up == down && above % 2 == 0) ? above : above - 1;
    }
    static void check(double x) {
        const T made(x);
        const unsigned wanted = nearest(std::fabs(x)), sign = std::signbit(x) ? patterns / 2 : 0;
        if (wanted >= numbers().size()) {
            if (format.specials == Specials::ieee)
                EXPECT_EQ(static_cast<float>(made), std::copysign(HUGE_VALF, static_cast<float>(x))) << x;
            else
                EXPECT_TRUE(std::isnan(static_cast<float>(made))) << x;
        } else {
            const bool one_zero = format.specials == Specials::nan_for_minus0 && wanted == 0;
            EXPECT_EQ(made.bits(), one_zero ? 0 : sign | wanted) << x;
        }
    }
};
using All = testing::Types<Half, Brain, isthmus::float8_e3m4_t, isthmus::float8_e4m3_t, isthmus::float8_e4m3b11fnuz_t,
                           isthmus::float8_e4m3fn_t, isthmus::float8_e4m3fnuz_t, isthmus::float8_e5m2_t,
                           isthmus::float8_e5m2fnuz_t>;
TYPED_TEST_SUITE(SmallFloats, All);

TYPED_TEST(SmallFloats, EveryPatternWidens) {
    for (unsigned bits = 0; bits < this->patterns; ++bits) {
        const double wanted = this->value_of(bits);
        const float found = this->of(bits);
        if (std::isnan(wanted)) {
            EXPECT_TRUE(std::isnan(found)) << bits;
        } else {
            EXPECT_EQ(static_cast<double>(found), wanted) << bits;
            EXPECT_EQ(std::signbit(found), std::signbit(wanted)) << bits;
            EXPECT_EQ(TypeParam(found).bits(), bits);
        }
    }
}

TYPED_TEST(SmallFloats, NumbersAreRoundedToTheNearest) {
    std::mt19937 random(7);
    const std::vector<double>& numbers = this->numbers();
    const std::size_t step = numbers.size() / 100 + 1;
    for (std::size_t i = 0; i + 1 < numbers.size(); i += step) {
        const double low = numbers[i], high = numbers[i + 1], middle = (low + high) / 2;
        for (double x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high),
                         std::nextafter(low, high), std::uniform_real_distribution<double>(low, high)(random)}) {
            this->check(x);
            this->check(-x);
        }
    }
    const double last = numbers.back(), next = last + (last - numbers[numbers.size() - 2]);
    for (double x : {last, (last + next) / 2, std::nextafter((last + next) / 2, 0.0), next, 2 * next}) {
        this->check(x);
        this->check(-x);
    }
}

TYPED_TEST(SmallFloats, WhatIsNoNumber) {
    EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::nanf("")))));
    EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(-std::nan("")))));
    const float infinite{TypeParam(HUGE_VALF)};
    EXPECT_TRUE(this->format.specials == Specials::ieee ? infinite == HUGE_VALF : std::isnan(infinite));
}

TYPED_TEST(SmallFloats, Limits) {
    using Limits = std::numeric_limits<TypeParam>;
    const std::vector<double>& numbers = this->numbers();
    EXPECT_EQ(static_cast<double>(static_cast<float>(Limits::max())), numbers.back());
    EXPECT_EQ(static_cast<double>(static_cast<float>(Limits::lowest())), -numbers.back());
    EXPECT_EQ(static_cast<double>(static_cast<float>(Limits::denorm_min())), numbers[1]);
    EXPECT_EQ(static_cast<double>(static_cast<float>(Limits::min())), numbers[1U << this->format.mantissa]);
    EXPECT_EQ(std::ldexp(1.0, Limits::min_exponent - 1), static_cast<double>(static_cast<float>(Limits::min())));
    EXPECT_LT(numbers.back(), std::ldexp(1.0, Limits::max_exponent));
    EXPECT_GE(numbers.back(), std::ldexp(1.0, Limits::max_exponent - 1));
    EXPECT_EQ(1 + static_cast<double>(static_cast<float>(Limits::epsilon())),
              *std::upper_bound(numbers.begin(), numbers.end(), 1.0));
    EXPECT_TRUE(std::isnan(static_cast<float>(Limits::quiet_NaN())));
    EXPECT_EQ(Limits::has_infinity, std::isinf(static_cast<float>(Limits::infinity())));
}

TYPED_TEST(SmallFloats, LooksLikeItsBits) {
    EXPECT_EQ(sizeof(TypeParam), static_cast<std::size_t>(dtype_of<TypeParam>().itemsize()));
    EXPECT_TRUE(std::is_trivially_copyable_v<TypeParam> && std::is_trivially_default_constructible_v<TypeParam>);
    TypeParam x(1.0F);
    x += 1;
    x *= 3;
    x -= 2;
    x /= 4;
    EXPECT_EQ(static_cast<float>(x), 1);
    EXPECT_EQ(x * 2 + 1, 3);
    static_assert(!std::is_convertible_v<float, TypeParam> && std::is_convertible_v<TypeParam, float>);
}

TEST(SmallFloat, ADoubleIsRoundedOnce) {
    // Half way between two numbers of bfloat16 but for its last digit, which float does not hold.
    EXPECT_EQ(Brain(1.00390625 + 1e-12).bits(), 0x3F81);
    EXPECT_EQ(Brain(1.00390625).bits(), 0x3F80);
    EXPECT_EQ(Brain(1.01171875 - 1e-12).bits(), 0x3F81);
    EXPECT_EQ(Brain(-1.00390625 - 1e-12).bits(), 0xBF81);
    EXPECT_EQ(Half(2049 + 1e-9).bits(), 0x6801);
    EXPECT_EQ(Half(2049).bits(), 0x6800);
    EXPECT_EQ(Brain(std::int64_t{16842753}).bits(), 0x4B81) << "2**24 + 2**16 + 1: float's 2**24 + 2**16 is half way";
    EXPECT_EQ(Brain(true).bits(), 0x3F80);
}

TEST(SmallFloat, DTypes) {
    EXPECT_EQ(dtype_of<Half>(), isthmus::float16);
    EXPECT_EQ(dtype_of<isthmus::float16_t>(), isthmus::float16);
    EXPECT_EQ(dtype_of<isthmus::bfloat16_t>(), isthmus::bfloat16);
    EXPECT_EQ(dtype_of<const isthmus::float8_e4m3fn_t>(), isthmus::float8_e4m3fn);
    EXPECT_EQ(dtype_of<isthmus::float8_e5m2fnuz_t>(), isthmus::float8_e5m2fnuz);
}

/// A kernel as it is written for at::Half: sums in its own type, literals of every type.
template <class T>
T mean_of_squares(const T* x, int count) {
    T sum = 0;
    for (int i = 0; i < count; ++i) sum += x[i] * x[i];
    const T quarter = 0.25;
    return sum / count + quarter - 0.25f * 1 - T(0);
}

template <class T>
class ImplicitFloats : public testing::Test {};
using ImplicitTypes = testing::Types<isthmus::float16_t, isthmus::bfloat16_t, isthmus::float8_e4m3fn_t>;
TYPED_TEST_SUITE(ImplicitFloats, ImplicitTypes);

TYPED_TEST(ImplicitFloats, AreWhatKernelsOfTorchExpect) {
    using Implicit = isthmus::ImplicitFloat<TypeParam>;
    const Implicit x[] = {1, 2.0, 3.0f, Implicit(true)};
    EXPECT_EQ(mean_of_squares(x, 4), 3.75f);
    EXPECT_EQ(dtype_of<Implicit>(), dtype_of<TypeParam>());
    EXPECT_TRUE(std::is_trivially_copyable_v<Implicit> && sizeof(Implicit) == sizeof(TypeParam));
    static_assert(std::is_same_v<decltype(x[0] + x[1]), Implicit> && std::is_same_v<decltype(x[0] * 2), Implicit>);
    static_assert(std::is_same_v<decltype(1 - x[0]), Implicit> && std::is_same_v<decltype(-x[0]), Implicit>);
    static_assert(std::is_same_v<decltype(x[0] / 2.0f), float> && std::is_same_v<decltype(2.0 / x[0]), double>);
    static_assert(std::is_convertible_v<double, Implicit> && std::is_convertible_v<Implicit, float>);
    Implicit y = 4;
    y -= 1;
    y *= 2.0;
    y /= x[1];
    EXPECT_TRUE(y == 3 && x[0] < x[1] && y >= 3.0 && -y == -3.0f && y != x[0]);
    EXPECT_EQ(float(std::numeric_limits<Implicit>::max()), float(std::numeric_limits<TypeParam>::max()));
    EXPECT_EQ(float(y.value()), 3);
}
TEST(ImplicitFloat, EachOperationIsRounded) {
    using Implicit = isthmus::ImplicitFloat<Half>;
    EXPECT_EQ(Implicit(2048) + Implicit(1), 2048.0f) << "2049 is half way, to the even one";
    EXPECT_EQ(Implicit(2048) + 1.0f, 2049.0f) << "a float stays one";
    EXPECT_EQ(Implicit(2049 + 1e-9), 2050.0f) << "a double is rounded once";
}
TEST(ImplicitFloat, IsTheElementOfAView) {
    using Implicit = isthmus::ImplicitFloat<isthmus::bfloat16_t>;
    std::uint16_t bits[] = {0x3F80, 0x4000};
    const isthmus::Tensor x = isthmus::Tensor::wrap(bits, {2}, {1}, isthmus::bfloat16, isthmus::Device::cpu(), [] {});
    const auto view = x.view<Implicit, 1>().value();
    view(0) = view(0) + view(1);
    EXPECT_EQ(bits[0], 0x4040);
}

constexpr Brain at_compile_time(1.5F);
static_assert(static_cast<float>(at_compile_time) == 1.5F && at_compile_time.bits() == 0x3FC0);

}  // namespace
