// SPDX-License-Identifier: Apache-2.0
#include <isthmus/visit.h>

#include <isthmus/isthmus.h>

#include <gtest/gtest.h>

#include <vector>

namespace {

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::View;

/// Two elements of 1 and 2.
template <class T>
Tensor one_and_two() {
    return Tensor::own(std::vector<T>{T(1), T(2)}, {2});
}

const auto name_and_sum = [](auto view) {
    using T = std::remove_const_t<typename decltype(view)::element_type>;
    auto sum = view(0) + view(1);
    return isthmus::dtype_of<T>().name() + (sum == decltype(sum)(3) ? "" : ", wrong");
};

template <class Set, class... T>
void expect_all() {
    const auto expect_one = [](const Tensor& tensor) {
        const auto view = tensor.view<const Set, 1>();
        ASSERT_TRUE(view) << view.error().what();
        EXPECT_EQ(view->visit(name_and_sum), tensor.dtype().name());
    };
    (expect_one(one_and_two<T>()), ...);
}

TEST(Visit, Floating) { expect_all<isthmus::floating, float, double, isthmus::float16_t, isthmus::bfloat16_t>(); }
TEST(Visit, Integral) {
    expect_all<isthmus::integral, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
               std::uint32_t, std::uint64_t>();
}
TEST(Visit, ComplexValued) { expect_all<isthmus::complex_valued, std::complex<float>, std::complex<double>>(); }
TEST(Visit, AnyDType) {
    expect_all<isthmus::any_dtype, float, double, isthmus::float16_t, isthmus::bfloat16_t, std::int8_t, std::uint64_t,
               std::complex<float>>();
    const Tensor flags = Tensor::own(std::vector<isthmus::ByteBool>{true, false}, {2});
    const auto view = flags.view<const isthmus::any_dtype, 1>().value();
    EXPECT_TRUE(view.visit(
        [](auto typed) { return typed(0) == std::remove_const_t<typename decltype(typed)::element_type>(1); }));
}

TEST(Visit, TypesOfItsOwn) {
    const Tensor small = one_and_two<isthmus::float8_e4m3fn_t>();
    const auto view = small.view<const isthmus::floating, 1>().value();
    EXPECT_EQ((view.visit<float, isthmus::float8_e4m3fn_t>(name_and_sum)), "float8_e4m3fn");
    const Tensor doubles = one_and_two<double>();
    const auto one_of = doubles.view<const isthmus::one_of<float, double>, 1>().value();
    EXPECT_EQ(one_of.visit<double>(name_and_sum), "float64");
    EXPECT_THROW((void)one_of.visit<float>(name_and_sum), isthmus::Error);
}

TEST(Visit, WhatNoTypeIsTriedForIsAnError) {
    const Tensor small = one_and_two<isthmus::float8_e5m2_t>();
    try {
        const auto view = small.view<const isthmus::floating, 1>().value();
        (void)view.visit(name_and_sum);
        FAIL();
    } catch (const isthmus::Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_dtype);
        EXPECT_STREQ(error.what(), "visit() tries no type of dtype float8_e5m2; name one: visit<T, …>(f)");
    }
}

TEST(Visit, WritesThroughAMutableView) {
    const Tensor tensor = one_and_two<isthmus::bfloat16_t>();
    const auto view = tensor.view<isthmus::floating, 1>().value();
    view.visit([](auto typed) { typed(0) = typename decltype(typed)::element_type(5); });
    EXPECT_EQ(static_cast<float>(tensor.view<isthmus::bfloat16_t, 1>().value()(0)), 5);
}

}  // namespace
