// SPDX-License-Identifier: Apache-2.0
// Every function that takes a dimension, an index or a size, at the edges of its arguments: tensors and views agree,
// and nothing is read, written or computed beyond what there is (the sanitizers see the rest).
#include <isthmus/core/view/window.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/converted.h>
#include <isthmus/isthmus.h>

#include "support/counting.h"
#include "support/errors.h"

using isthmus::c_contiguous;
using isthmus::Device;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::f_contiguous;
using isthmus::float32;
using isthmus::inner_contiguous;
using isthmus::Tensor;
using isthmus::View;
using isthmus_test::counting;
using isthmus_test::expect_error;

namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t least = INT64_MIN, most = INT64_MAX;

Sizes numbers(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

/// What a call gives, or says: shape, strides and first element.
template <class F>
std::string outcome(F f) {
    try {
        const auto made = f();
        return isthmus::layout::to_string(made.shape()) + isthmus::layout::to_string(made.strides()) + "@" +
               std::to_string(reinterpret_cast<std::uintptr_t>(made.data()));
    } catch (const Error& error) {
        return error.what();
    }
}

/// Tensors of three dimensions whose strides or sizes are near what 64 bits can count.
std::vector<Tensor> odd_tensors() {
    static float memory[24] = {};
    const auto over = [](Sizes shape, Sizes strides) {
        return Tensor::wrap(memory + 12, shape, strides, float32, Device::cpu(), nullptr);
    };
    return {counting({2, 3, 4}, 24),
            over({2, 3, 4}, {-12, 4, 1}),
            over({1, 1, 1}, {least, most, -1}),
            over({1, 3, 1}, {most, 0, least}),
            over({0, 3, 4}, {most, most, least}),
            over({3, 0, 4}, {least, least, most}),
            over({3, 4, 0}, {most / 2, most, 7}),
            over({most, 0, 1}, {1, 1, most}),
            Tensor::wrap(static_cast<void*>(nullptr), {3, 0, 4}, {}, float32, Device::cpu(), nullptr)};
}

TEST(Edges, SelectOfATensorAndOfAViewAgree) {
    for (const Tensor& t : odd_tensors()) {
        const auto v = t.view<const float, 3>().value();
        for (int d : {-1, -3, 0, 2, -4, 3, INT_MIN, INT_MAX}) {
            // An index of a view is checked in debug builds alone, where a wrong one ends the process.
            const int found = d < 0 ? d + 3 : d;
            const bool is_dimension = found >= 0 && found < 3;
            for (std::int64_t i : {std::int64_t{0}, is_dimension ? t.shape()[found] - 1 : 0}) {
                if (is_dimension && t.shape()[found] == 0) continue;
                EXPECT_EQ(outcome([&] { return v.select(d, i); }), outcome([&] { return t.select(d, i); }))
                    << "select(" << d << ", " << i << ") of " << isthmus::layout::to_string(t.shape());
            }
            for (std::int64_t i : {least, most}) EXPECT_THROW((void)t.select(d, i), Error);
        }
        for (std::int64_t i = 0; i < std::min<std::int64_t>(t.shape()[0], 3); ++i)
            EXPECT_EQ(outcome([&] { return v.select(i); }), outcome([&] { return t.select(0, i); }));
    }
}

TEST(Edges, SliceOfATensorAndOfAViewAgree) {
    const std::int64_t bounds[] = {least, -5, -1, 0, 1, 3, 4, 5, most};
    for (const Tensor& t : odd_tensors()) {
        const auto v = t.view<const float, 3>().value();
        for (int d : {-1, -3, 0, 1, 2, -4, 3, INT_MIN, INT_MAX})
            for (std::int64_t start : bounds)
                for (std::int64_t stop : bounds)
                    for (std::int64_t step : {std::int64_t{1}, std::int64_t{2}, most, least, std::int64_t{0}})
                        ASSERT_EQ(outcome([&] { return v.slice(d, start, stop, step); }),
                                  outcome([&] { return t.slice(d, start, stop, step); }))
                            << "slice(" << d << ", " << start << ", " << stop << ", " << step << ") of "
                            << isthmus::layout::to_string(t.shape());
    }
}

TEST(Edges, ASliceOfNothingKeepsAStrideThatCannotBeMultiplied) {
    const Tensor t =
        Tensor::wrap(static_cast<void*>(nullptr), {0, 4}, {1, most}, float32, Device::cpu(), nullptr).slice(1, 0, 4, 2);
    EXPECT_EQ(numbers(t.shape()), (Sizes{0, 2}));
    EXPECT_EQ(t.strides()[1], most);
}

TEST(Edges, ReshapeAndBroadcastOfATensorAndOfAViewAgree) {
    for (const Tensor& t : odd_tensors()) {
        const auto v = t.view<const float, 3>().value();
        for (std::int64_t a : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, least, most})
            for (std::int64_t b : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{4}, std::int64_t{24}, least, most})
                for (std::int64_t c : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, most}) {
                    const std::int64_t wanted[] = {a, b, c};
                    ASSERT_EQ(outcome([&] { return v.reshape(wanted); }), outcome([&] { return t.reshape({a, b, c}); }))
                        << isthmus::layout::to_string(t.shape()) << " as " << isthmus::layout::to_string(wanted);
                    const std::string repeated = outcome([&] { return t.broadcast_to({a, b, c}); });
                    if (repeated.find("more bytes than") != std::string::npos) continue;  // a view counts elements
                    ASSERT_EQ(outcome([&] { return v.broadcast_to(wanted); }), repeated);
                }
    }
}

TEST(Edges, ReshapeOfNothingCountsTheOtherSizesToo) {
    const Tensor t = counting({0}, 0);
    const auto v = t.view<float, 1>().value();
    const char* text = "reshape(): shape (0, 9223372036854775807, 3) does not hold the 0 elements of shape (0,)";
    expect_error(ErrorCode::bad_layout, text, [&] { return t.reshape({0, most, 3}); });
    expect_error(ErrorCode::bad_layout, text, [&] { return v.reshape({0, most, 3}); });
}

TEST(Edges, TransposeTakesNoAxisTwice) {
    for (const Tensor& t : odd_tensors()) {
        const auto v = t.view<const float, 3>().value();
        for (std::int64_t axis : {least, std::int64_t{-4}, std::int64_t{3}, std::int64_t{0}, most})
            EXPECT_EQ(outcome([&] { return v.transpose({0, 1, axis}); }),
                      outcome([&] { return t.transpose({0, 1, axis}); }));
        EXPECT_EQ(outcome([&] { return v.transpose(); }), outcome([&] { return t.transpose(); }));
    }
}

/// One row between others, a column, and the strides that nobody steps along.
Tensor with_odd_strides(Sizes shape, Sizes strides) {
    static float memory[24] = {};
    return Tensor::wrap(memory, shape, strides, float32, Device::cpu(), nullptr);
}

TEST(Edges, ContiguousGivesRowMajorStrides) {
    const Tensor t = with_odd_strides({1, 3, 1, 2}, {9999, 2, least, 1});
    EXPECT_TRUE(t.is_contiguous());
    EXPECT_EQ(numbers(t.contiguous().strides()), (Sizes{6, 2, 2, 1}));
    EXPECT_EQ(t.contiguous().data(), t.data());
    EXPECT_FALSE(t.contiguous().is_copied());
    EXPECT_EQ(numbers(t.view<float, 4>().value().contiguous().strides()), (Sizes{6, 2, 2, 1}));
    EXPECT_EQ(numbers(with_odd_strides({0, 3}, {7, 7}).contiguous().strides()), (Sizes{3, 1}));
    const Tensor plain = counting({2, 3}, 6);
    EXPECT_EQ(plain.contiguous().descriptor().strides, plain.descriptor().strides) << "itself, if nothing changes";
    EXPECT_TRUE(t.as_read_only().contiguous().read_only());
}

TEST(Edges, AViewOfAKnownOrderHasTheStridesOfThatOrder) {
    const Tensor c = with_odd_strides({1, 3, 1}, {9999, 1, least});
    EXPECT_EQ(numbers((c.view<float, 3, c_contiguous>().value().strides())), (Sizes{3, 1, 1}));
    EXPECT_EQ(numbers((c.view<float, 3, f_contiguous>().value().strides())), (Sizes{1, 1, 3}));
    EXPECT_EQ(numbers((c.view<const isthmus::floating, 3, c_contiguous>().value().strides())), (Sizes{3, 1, 1}));
    EXPECT_EQ((c.view<float, 3, inner_contiguous>().value().stride(2)), 1);
    EXPECT_EQ((c.view<float, 3, inner_contiguous>().value().stride(0)), 9999);
    const Tensor empty = with_odd_strides({2, 0, 3}, {most, most, 5});
    EXPECT_EQ(numbers((empty.view<float, 3, c_contiguous>().value().strides())), (Sizes{3, 3, 1}));
    EXPECT_EQ(numbers((empty.view<float, 3, f_contiguous>().value().strides())), (Sizes{1, 2, 2}));
    EXPECT_EQ(numbers((c.view<float, 3>().value().strides())), (Sizes{9999, 1, least})) << "as they are";
}

/// UndefinedBehaviorSanitizer sees a stride that was counted in bytes although nobody steps along it.
TEST(Edges, CopiesDoNotCountStridesThatAreNotUsed) {
    using Wanted = isthmus::detail::Wanted<const double, 3, isthmus::converted>;
    for (const Tensor& t : odd_tensors()) {
        const Tensor copy = isthmus::copy_of(t).value();
        const Tensor wide = isthmus::detail::convert_tensor(t.block()->dl, Wanted::requirement).value();
        for (const Tensor& made : {copy, wide}) {
            EXPECT_EQ(numbers(made.shape()), numbers(t.shape()));
            EXPECT_TRUE(made.is_contiguous());
        }
        const auto from = t.view<const float, 3>().value();
        if (from.empty()) continue;
        EXPECT_EQ((copy.view<const float, 3>().value()(0, 0, 0)), from(0, 0, 0));
        EXPECT_EQ((wide.view<const double, 3>().value()(0, 0, 0)), from(0, 0, 0));
    }
}

}  // namespace
