// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if !__has_include(<Eigen/Core>)
TEST(Eigen, Adapter) { GTEST_SKIP() << "Eigen is not installed"; }
#else
#include <string>

#include <isthmus/eigen.h>
#if __has_include(<unsupported/Eigen/CXX11/Tensor>)
#include <isthmus/eigen_tensor.h>
#endif

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

TEST(Eigen, MapsATensorInPlaceWhateverTheOrder) {
    const Tensor t = counting({2, 3}, 6);
    auto columns = to_eigen<Eigen::MatrixXf>(t).value();
    EXPECT_EQ(columns.data(), t.data());
    EXPECT_EQ(columns(1, 2), 5);
    auto rows = to_eigen<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(t).value();
    EXPECT_EQ(rows, columns);
    rows *= 2;
    EXPECT_EQ(static_cast<float*>(t.data())[5], 10);
    EXPECT_EQ((to_eigen<Eigen::ArrayXXf>(t).value().sum()), 30);
}

TEST(Eigen, FollowsTheStrides) {
    const Tensor t = counting({4, 6}, 24);
    auto* data = static_cast<float*>(t.data());
    const Tensor part = t.as_strided(data + 1, {2, 2}, {12, 2}, float32);
    EXPECT_EQ((to_eigen<const Eigen::MatrixXf>(part).value()), (Eigen::MatrixXf(2, 2) << 1, 3, 13, 15).finished());
    const Tensor turned = t.as_strided(data, {6, 4}, {1, 6}, float32);
    EXPECT_EQ((to_eigen<const Eigen::MatrixXf>(turned).value()(5, 3)), 23);
    const Tensor backwards = t.as_strided(data + 23, {24}, {-1}, float32);
    EXPECT_EQ((to_eigen<const Eigen::VectorXf>(backwards).value()(0)), 23);
    EXPECT_EQ((to_eigen<const Eigen::RowVectorXf>(backwards).value()(23)), 0);
}

TEST(Eigen, SizesOfTheTypeAreAskedFor) {
    const Tensor t = counting({3, 3}, 9), wrong = counting({3, 4}, 12);
    EXPECT_EQ((to_eigen<const Eigen::Matrix3f>(t).value().trace()), 12);
    EXPECT_STREQ((to_eigen<const Eigen::Matrix3f>(wrong).error().what()),
                 "expected float32[3, 3] on cpu, got float32[3, 4] on cpu: dimension 1 has size 4, expected 3");
    EXPECT_STREQ((to_eigen<Eigen::MatrixXd>(t).error().what()),
                 "expected writable float64[:, :] on cpu, got float32[3, 3] on cpu: dtype differs");
    const Tensor frozen = t.as_read_only();
    EXPECT_EQ((to_eigen<Eigen::MatrixXf>(frozen).error().code()), ErrorCode::read_only);
    EXPECT_TRUE((to_eigen<const Eigen::MatrixXf>(frozen)));
}

TEST(Eigen, MapsAView) {
    const Tensor t = counting({2, 3}, 6);
    const auto strict = to_eigen(t.view<float, 2, c_contiguous>().value());
    static_assert(decltype(strict)::InnerStrideAtCompileTime == 1);
    EXPECT_EQ(strict(1, 0), 3);
    EXPECT_EQ(to_eigen(t.view<const float, 2>().value())(1, 0), 3);
    const Tensor flat = counting({6}, 6);
    EXPECT_EQ(to_eigen(flat.view<const float, 1>().value()).sum(), 15);
}

TEST(Eigen, OwnsAMatrixThatIsMovedIn) {
    Eigen::MatrixXd m = Eigen::MatrixXd::Random(4, 5);
    const Eigen::MatrixXd copy = m;
    const double* data = m.data();
    const Tensor t = Tensor::own(std::move(m));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(layout::to_string(t.shape()), "(4, 5)");
    EXPECT_EQ(layout::to_string(t.strides()), "(1, 4)");
    EXPECT_EQ((to_eigen<const Eigen::MatrixXd>(t).value()), copy);
    const Tensor v = Tensor::own(Eigen::VectorXf(Eigen::VectorXf::LinSpaced(4, 0, 3)));
    EXPECT_EQ(layout::to_string(v.shape()), "(4,)");
    const Tensor fixed =
        Tensor::own(Eigen::Matrix4f(Eigen::Matrix4f::Identity()));  // its elements lie in the object itself
    EXPECT_EQ((fixed.view<const float, 2>().value()(3, 3)), 1);
    EXPECT_EQ(Tensor::own(Eigen::MatrixXf()).numel(), 0);
}

TEST(Eigen, MemoryWithAnOwnerOfItsOwn) {
    auto kept = std::make_shared<Eigen::MatrixXf>(Eigen::MatrixXf::Random(4, 4));
    auto block = kept->block(1, 1, 2, 2);
    const Tensor t = from_eigen(block, kept);
    EXPECT_EQ(kept.use_count(), 2);
    EXPECT_EQ((t.view<float, 2>().value()(1, 0)), (*kept)(2, 1));
    EXPECT_EQ(layout::to_string(t.strides()), "(1, 4)");
    const Eigen::MatrixXf& constant = *kept;
    EXPECT_TRUE(from_eigen(constant, kept).read_only());
    EXPECT_TRUE(from_eigen(constant.col(2), kept).read_only());
    const Tensor row = from_eigen(kept->row(1), kept);
    EXPECT_EQ(layout::to_string(row.shape()), "(4,)");
    EXPECT_EQ(layout::to_string(row.strides()), "(4,)");
    EXPECT_FALSE(row.read_only());
    EXPECT_EQ((row.view<float, 1>().value()(3)), (*kept)(1, 3));
}

template <class X>
concept CanBeShown = requires(X&& x, std::shared_ptr<int> owner) { from_eigen(std::forward<X>(x), owner); };

TEST(Eigen, PartsOfAVector) {
    auto kept = std::make_shared<Eigen::VectorXd>(Eigen::VectorXd::LinSpaced(6, 0, 5));
    for (const auto& [part, first] :
         {std::pair(from_eigen(kept->head(2), kept), 0.0), std::pair(from_eigen(kept->tail(3), kept), 3.0),
          std::pair(from_eigen(kept->segment(1, 4), kept), 1.0)}) {
        EXPECT_FALSE(part.read_only());
        EXPECT_EQ((part.view<double, 1>().value()(0)), first);
    }
    EXPECT_EQ(kept.use_count(), 1);
    // A matrix that ends with the expression is no part of anything.
    static_assert(CanBeShown<Eigen::MatrixXf&> && !CanBeShown<Eigen::MatrixXf>);
    static_assert(CanBeShown<Eigen::Block<Eigen::MatrixXf>>);
}

#if __has_include(<unsupported/Eigen/CXX11/Tensor>)
TEST(EigenTensor, MapsInPlaceInTheOrderThatFits) {
    const Tensor t = counting({2, 3, 4}, 24);
    auto map = to_eigen_tensor<float, 3>(t).value();
    EXPECT_EQ(map.data(), t.data());
    EXPECT_EQ(map(1, 2, 3), 23);
    map(0, 0, 0) = 7;
    EXPECT_EQ(static_cast<float*>(t.data())[0], 7);
    const auto wrong = to_eigen_tensor<const float, 3, Eigen::ColMajor>(t);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code(), ErrorCode::bad_layout);
}

TEST(EigenTensor, OwnsATensorThatIsMovedIn) {
    Eigen::Tensor<float, 3> columns(2, 3, 4);
    columns.setZero();
    columns(1, 2, 3) = 5;
    const float* data = columns.data();
    const Tensor t = Tensor::own(std::move(columns));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(layout::to_string(t.strides()), "(1, 2, 6)");
    EXPECT_EQ((t.view<const float, 3>().value()(1, 2, 3)), 5);
    EXPECT_TRUE((to_eigen_tensor<float, 3, Eigen::ColMajor>(t)));
    const Tensor rows = Tensor::own(Eigen::Tensor<double, 2, Eigen::RowMajor>(3, 5));
    EXPECT_TRUE(rows.is_contiguous());
    EXPECT_EQ(layout::to_string(rows.shape()), "(3, 5)");
}
#endif

}  // namespace
#endif
