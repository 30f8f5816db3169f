// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if !__has_include(<xtensor/xtensor.hpp>)
TEST(XTensor, Adapter) { GTEST_SKIP() << "xtensor is not installed"; }
#else
#include <isthmus/xtensor.h>

#include <xtensor/xmath.hpp>

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
    EXPECT_THROW(to_xtensor(backwards.view<const float, 1>().value()), Error);
    const Tensor none = counting({0, 3}, 0);
    EXPECT_EQ(to_xtensor(none.view<const float, 2>().value()).size(), 0u);
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
