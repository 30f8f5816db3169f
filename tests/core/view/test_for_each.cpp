// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/view/for_each.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

using Any = View<float, dynamic_rank>;
using AnyConst = View<const float, dynamic_rank>;

/// A part of a tensor that is turned and stepped through at random, of at most `most` elements in each dimension.
Tensor random_part(std::mt19937& random, int ndim, std::int64_t most) {
    std::vector<std::int64_t> sizes;
    std::size_t count = 1;
    for (int d = 0; d < ndim; ++d) {
        sizes.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)));
        count *= static_cast<std::size_t>(sizes.back());
    }
    Tensor t = counting(sizes, count);
    std::vector<std::int64_t> axes(sizes.size());
    for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
    std::shuffle(axes.begin(), axes.end(), random);
    if (ndim > 0) t = t.transpose(axes);
    for (int d = 0; d < ndim; ++d) {
        t = t.slice(d, static_cast<std::int64_t>(random() % 2), INT64_MAX, 1 + static_cast<std::int64_t>(random() % 3));
        if (random() % 3 != 0 || t.numel() == 0) continue;
        std::vector<std::int64_t> strides(t.strides().begin(), t.strides().end());
        const auto i = static_cast<std::size_t>(d);
        auto* last = static_cast<float*>(t.data()) + strides[i] * (t.shape()[i] - 1);
        strides[i] = -strides[i];
        t = t.as_strided(last, t.shape(), strides, float32);
    }
    return t;
}

/// The address of the element that has this number in row-major order.
template <class T>
T* element(const View<T, dynamic_rank>& v, std::int64_t number) {
    T* at = v.data();
    for (int d = v.ndim() - 1; d >= 0; --d) {
        at += number % v.extent(d) * v.stride(d);
        number /= v.extent(d);
    }
    return at;
}

TEST(ForEach, EveryElementOnceWhateverTheLayout) {
    std::mt19937 random(3);
    int elements = 0;
    for (int round = 0; round < 600; ++round) {
        const Tensor out = random_part(random, static_cast<int>(random() % 5), round % 20 == 0 ? 40 : 7);
        Tensor in = counting(out.shape(), static_cast<std::size_t>(out.numel()));
        if (random() % 2 && out.ndim() > 1) in = copy_of(in.transpose()).value().transpose();
        const auto to = out.view<Any>().value();
        const auto from = in.view<AnyConst>().value();
        for_each([](float& x, float number) { x = 1000 + number; }, to, from);
        for_each([](float& x) { x += 1; }, to);
        for (std::int64_t i = 0; i < to.size(); ++i, ++elements)
            ASSERT_EQ(*element(to, i), static_cast<float>(1001 + i))
                << layout::to_string(out.shape()) << layout::to_string(out.strides());
    }
    EXPECT_GT(elements, 10000);
}

TEST(ForEach, LeavesWhatLiesBetween) {
    const Tensor t = counting({4, 300}, 1200);
    const auto every_third = t.view<float, 2>().value().slice(1, 0, INT64_MAX, 3);
    for_each([](float& x) { x = -1; }, every_third);
    const auto v = t.view<float, 2>().value();
    for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 300; ++j) ASSERT_EQ(v(i, j), j % 3 == 0 ? -1 : static_cast<float>(300 * i + j));
}

TEST(ForEach, SeveralViewsOfSeveralTypes) {
    const Tensor image = counting({5, 7, 3}, 105), bias = counting({3}, 3);
    const Tensor counts = Tensor::empty({5, 7, 3}, isthmus::int32);
    const auto wide = bias.view<const float, 1>().value().broadcast_to({5, 7, 3});
    for_each([](std::int32_t& n, float x, float b) { n = static_cast<std::int32_t>(x + 100 * b); },
             counts.view<std::int32_t, 3>().value(), image.view<const float, 3>().value(), wide);
    const auto n = counts.view<const std::int32_t, 3>().value();
    EXPECT_EQ(n(4, 6, 2), 304);
    EXPECT_EQ(n(2, 3, 1), (2 * 21 + 3 * 3 + 1) + 100 * 1);
}

TEST(ForEach, InPlaceOverTheSameElements) {
    const Tensor t = counting({300, 2}, 600);
    const auto column = t.view<float, 2>().value().select(1, 1);
    for_each([](float& x, float same) { x = x + same; }, column, View<const float, 1>(column));
    EXPECT_EQ(column(299), 2 * 599);
    EXPECT_EQ((t.view<float, 2>().value()(299, 0)), 598);
}

TEST(ForEach, NeighboursAreReadWhereTheyLie) {
    const Tensor t = counting({200'000}, 200'000);
    const float* expected = static_cast<const float*>(t.data());
    for_each([&](const float& x) { ASSERT_EQ(&x, expected++); }, t.view<const float, 1>().value());
    EXPECT_EQ(expected, static_cast<const float*>(t.data()) + 200'000);
}

TEST(ForEach, OfNothingAndOfOne) {
    int calls = 0;
    const Tensor one = counting({}, 1), none = counting({3, 0}, 0);
    for_each([&](float) { ++calls; }, one.view<const float, 0>().value());
    EXPECT_EQ(calls, 1);
    for_each([&](float) { ++calls; }, none.view<const float, 2>().value());
    EXPECT_EQ(calls, 1);
}

TEST(ForEach, SizesMustBeTheSame) {
    const Tensor a = counting({2, 3}, 6), b = counting({3, 2}, 6);
    try {
        for_each([](float&, float) {}, a.view<float, 2>().value(), b.view<const float, 2>().value());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_layout);
        EXPECT_STREQ(error.what(), "for_each(): found shapes (2, 3) and (3, 2); expected the same sizes");
    }
}

TEST(ForEach, TakesWhatIsDerivedFromAView) {
    struct Result : View<float, 1> {};
    const Tensor to = counting({3}, 3), from = counting({3}, 3);
    const Result result{to.view<float, 1>().value()};
    for_each([](float& y, float x) { y = 2 * x; }, result, from.view<const float, 1>().value());
    EXPECT_EQ(result(2), 4);
}

// What the inner loop sees, which is what a compiler can make vectors of.
TEST(ForEach, DimensionsThatFollowOnOneAnotherAreOne) {
    const auto walk = [](const Tensor& t) {
        const std::int64_t* const strides[] = {t.strides().data()};
        return isthmus::detail::IterationPlan(t.ndim(), t.shape().data(), 1, strides);
    };
    const Tensor t = counting({2, 3, 4}, 24);
    EXPECT_EQ(walk(t).ndim, 1);
    EXPECT_EQ(walk(t).sizes[0], 24);
    EXPECT_EQ(walk(t.transpose({2, 0, 1})).ndim, 1) << "in whatever order they are named";
    EXPECT_EQ(walk(t.slice(1, 0, 2)).ndim, 2);
    EXPECT_EQ(walk(t.slice(1, 0, 2)).sizes[1], 8);
    EXPECT_EQ(walk(t.slice(1, 0, 1)).sizes[1], 4);
    const auto part = walk(t.slice(0, 0, 1).transpose({1, 0, 2}).slice(2, 0, 2));
    EXPECT_EQ(part.ndim, 2);
    EXPECT_EQ(part.strides[1][0], 1);
    const Tensor backwards = t.as_strided(static_cast<float*>(t.data()) + 23, {2, 3, 4}, {-12, -4, -1}, float32);
    EXPECT_EQ(walk(backwards).ndim, 1);
    EXPECT_EQ(walk(backwards).strides[0][0], 1);
    EXPECT_EQ(walk(backwards).starts[0], -23);
    EXPECT_EQ(walk(counting({1, 1}, 1)).ndim, 0);
}

}  // namespace
