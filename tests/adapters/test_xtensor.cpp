// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

// Since 0.26 the headers stand in folders.
#if !__has_include(<xtensor/xtensor.hpp>) && !__has_include(<xtensor/containers/xtensor.hpp>)
TEST(XTensor, Adapter) { GTEST_SKIP() << "xtensor is not installed"; }
#else
#include <span>
#include <vector>

#include <isthmus/xtensor.h>

#if __has_include(<xtensor/core/xmath.hpp>)
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/generators/xbuilder.hpp>
#else
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#endif

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

TEST(XTensor, ShowsATensorInPlace) {
    const Tensor t = counting({2, 3}, 6);
    auto x = to_xtensor(t.view<float, 2, c_contiguous>().value());
    EXPECT_EQ(x.data(), t.data());
    EXPECT_EQ(x(1, 2), 5);
    EXPECT_EQ(xt::sum(x)(), 15);
    x(0, 0) = 7;
    EXPECT_EQ(static_cast<float*>(t.data())[0], 7);
}

TEST(XTensor, FollowsTheStrides) {
    const Tensor t = counting({4, 6}, 24);
    auto* data = static_cast<float*>(t.data());
    const Tensor turned = t.as_strided(data, {6, 4}, {1, 6}, float32);
    auto x = to_xtensor(turned.view<const float, 2>().value());
    EXPECT_EQ(x(5, 3), 23);
    EXPECT_EQ(xt::sum(x)(), 276);
    const Tensor column = t.as_strided(data + 2, {4, 1}, {6, 1}, float32);
    EXPECT_EQ(to_xtensor(column.view<const float, 2>().value())(3, 0), 20);
    const Tensor backwards = t.as_strided(data + 23, {24}, {-1}, float32);
    auto reversed = to_xtensor(backwards.view<float, 1>().value());
    EXPECT_EQ(reversed(0), 23);
    EXPECT_EQ(reversed(23), 0);
    reversed *= 2.f;
    EXPECT_EQ(data[0], 0);
    EXPECT_EQ(data[23], 46);
    const Tensor none = counting({0, 3}, 0);
    EXPECT_EQ(to_xtensor(none.view<const float, 2>().value()).size(), 0u);
}

// What xtensor writes lies in the view, whatever its strides: by a number, by an expression, by another view.
TEST(XTensor, AssignsInsideTheView) {
    const auto check = [](const Tensor& t, const auto& view, auto&& assign, float expected) {
        auto x = to_xtensor(view);
        assign(x);
        const auto all = std::span(static_cast<const float*>(t.data()), static_cast<std::size_t>(t.numel()));
        std::int64_t written = 0;
        for (float value : all) written += value == expected;
        EXPECT_EQ(written, view.size());
        for (std::int64_t i = 0; i < view.extent(0); ++i)
            for (std::int64_t j = 0; j < view.extent(1); ++j) EXPECT_EQ(view(i, j), expected);
    };
    const auto number = [](auto& x) { x.fill(-1); };
    const auto scalar = [](auto& x) { xt::noalias(x) = xt::full_like(x, -1.f); };
    const auto expression = [](auto& x) { x = x * 0.f - 1.f; };
    const auto in_place = [](auto& x) {
        x *= 0.f;
        x -= 1.f;
    };
    const auto array = [](auto& x) {
        const xt::xarray<float> minus_one =
            -1.f * xt::ones<float>(std::vector<std::size_t>(x.shape().begin(), x.shape().end()));
        x = minus_one;
    };
    const auto every = [&](auto part) {
        const auto fresh = [&](auto&& assign) {
            const Tensor t = counting({6, 8}, 48);
            check(t, part(t.view<float, 2>().value()), assign, -1);
        };
        fresh(number);
        fresh(scalar);
        fresh(expression);
        fresh(in_place);
        fresh(array);
    };
    every([](auto v) { return v; });
    every([](auto v) { return v.transpose(); });
    every([](auto v) { return v.slice(0, 1, 5).slice(1, 2, 7); });
    every([](auto v) { return v.slice(0, 1, 6, 2).slice(1, 0, 8, 3); });
    every([](auto v) { return v.transpose().slice(0, 1, 8, 2); });
    every([](auto v) { return v.slice(1, 3, 4); });
    every([](auto v) { return v.slice(0, 3, 4).slice(1, 3, 4); });
}

TEST(XTensor, AssignsFromAViewOfTheSameStrides) {
    const Tensor a = counting({4, 6}, 24), b = counting({4, 6}, 24);
    const auto part = [](const Tensor& t) { return t.view<float, 2>().value().slice(0, 1, 3).slice(1, 1, 4); };
    for_each([](float& x) { x = -1; }, part(b));
    auto to = to_xtensor(part(a));
    to = to_xtensor(part(b));
    const auto v = a.view<const float, 2>().value();
    for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 6; ++j) {
            const bool inside = i >= 1 && i < 3 && j >= 1 && j < 4;
            EXPECT_EQ(v(i, j), inside ? -1 : static_cast<float>(6 * i + j));
        }
    xt::noalias(to) = to_xtensor(part(b)) + 1.f;
    EXPECT_EQ(v(1, 1), 0);
    EXPECT_EQ(v(1, 4), 10);
}

TEST(XTensor, ReadsAnyStridesLikeAView) {
    const Tensor t = counting({6, 8}, 48);
    const auto v = t.view<const float, 2>().value().transpose().slice(0, 1, 8, 3).slice(1, 0, 6, 2);
    const auto x = to_xtensor(v);
    const xt::xarray<float> copy = x + 0.f;
    for (std::size_t i = 0; i < copy.shape()[0]; ++i)
        for (std::size_t j = 0; j < copy.shape()[1]; ++j)
            EXPECT_EQ(copy(i, j), v(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)));
    const std::vector<float> flat(x.begin(), x.end());
    EXPECT_EQ(flat.size(), 9u);
    EXPECT_EQ(flat[1], v(0, 1));
    const Tensor wide = counting({3}, 3).broadcast_to({2, 3});
    EXPECT_EQ(xt::sum(to_xtensor(wide.view<const float, 2>().value()))(), 6);
}

TEST(XTensor, OfColumnsAndOfOneElement) {
    const Tensor t = counting({2, 3}, 6).transpose();
    auto x = to_xtensor(t.view<float, 2, f_contiguous>().value());
    EXPECT_EQ(x(2, 1), 5);
    x.fill(-1);
    EXPECT_EQ(static_cast<float*>(t.data())[5], -1);
    const Tensor one = counting({}, 1);
    EXPECT_EQ(to_xtensor(one.view<const float, 0>().value())(), 0);
}

TEST(XTensor, OwnsAContainerThatIsMovedIn) {
    xt::xarray<double> a = {{1., 2., 3.}, {4., 5., 6.}};
    const double* data = a.data();
    const Tensor t = Tensor::own(std::move(a));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(layout::to_string(t.shape()), "(2, 3)");
    EXPECT_EQ((t.view<const double, 2>().value()(1, 2)), 6);
    xt::xtensor<float, 2, xt::layout_type::column_major> b({2, 3});
    b.fill(1);
    const Tensor columns = Tensor::own(std::move(b));
    EXPECT_EQ(layout::to_string(columns.strides()), "(1, 2)");
    const Tensor thin = Tensor::own(xt::xtensor<float, 2>({1, 3}));  // xtensor's stride of a size of 1 is 0
    EXPECT_TRUE(thin.is_contiguous());
}

}  // namespace
#endif
