// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if !defined(ISTHMUS_HAVE_OPENCV)
TEST(OpenCV, Adapter) { GTEST_SKIP() << "OpenCV's core is not installed"; }
#else
#include <memory>
#include <string>
#include <vector>

#include <isthmus/opencv.h>

#include <opencv2/core.hpp>

using namespace isthmus;

namespace {

TEST(OpenCV, AMatKeepsTheTensor) {
    Tensor t = Tensor::empty({4, 5, 3}, uint8);
    std::memset(t.data(), 9, 60);
    const void* data = t.data();
    cv::Mat mat = to_mat(t).value();
    EXPECT_EQ(mat.data, data);
    EXPECT_EQ(mat.type(), CV_8UC3);
    EXPECT_EQ(mat.size(), cv::Size(5, 4));
    EXPECT_EQ(t.use_count(), 2u);
    cv::Mat other = mat, part = mat(cv::Rect(1, 1, 2, 2));
    EXPECT_EQ(t.use_count(), 2u) << "Mats share one handle";
    const Tensor watch = t;
    t = Tensor();
    mat.release();
    EXPECT_EQ(part.at<cv::Vec3b>(1, 1)[2], 9);
    other.release();
    EXPECT_EQ(watch.use_count(), 2u);
    part.release();
    EXPECT_EQ(watch.use_count(), 1u);
}

TEST(OpenCV, WritesInPlaceAndLetsGoWhenItNeedsOtherMemory) {
    const Tensor t = Tensor::empty({2, 2}, float32);
    cv::Mat mat = to_mat(t).value();
    mat.setTo(3);
    EXPECT_EQ((t.view<float, 2>().value()(1, 1)), 3);
    mat.create(7, 7, CV_64F);
    EXPECT_EQ(t.use_count(), 1u);
    mat.setTo(1);
}

TEST(OpenCV, RowsMayBeApartAndElementsMayNot) {
    const Tensor t = Tensor::empty({4, 8, 3}, uint8);
    auto* data = static_cast<std::uint8_t*>(t.data());
    const auto with = [&](const Shape& shape, const Shape& strides) {
        return to_mat(t.as_strided(data, shape, strides, uint8));
    };
    EXPECT_EQ(with({4, 5, 3}, {24, 3, 1}).value().step[0], 24u);
    EXPECT_EQ(with({2, 5, 3}, {48, 3, 1}).value().step[0], 48u);
    EXPECT_FALSE(with({4, 4, 3}, {24, 6, 1}));
    EXPECT_FALSE(with({3, 4, 8}, {1, 24, 3}));
    EXPECT_FALSE(with({4, 8, 3}, {0, 3, 1}));
    const Tensor last = t.as_strided(data + 72, {4, 8, 3}, {-24, 3, 1}, uint8);
    EXPECT_NE(std::string(to_mat(last).error().what()).find("strides (-24, 3, 1)"), std::string::npos);
    EXPECT_EQ(with({1, 5, 1}, {7, 1, 9}).value().type(), CV_8UC1);
}

TEST(OpenCV, AnEmptyMat) {
    const Tensor owned = Tensor::own(cv::Mat()), shown = from_mat(cv::Mat(), nullptr);
    for (const Tensor& t : {owned, shown}) {
        EXPECT_EQ(layout::to_string(t.shape()), "(0, 0)");
        EXPECT_EQ(t.dtype(), uint8);
        EXPECT_TRUE(to_mat(t).value().empty());
    }
    EXPECT_EQ(layout::to_string(Tensor::own(cv::Mat(0, 5, CV_32FC3)).shape()), "(0, 5, 3)");
}

TEST(OpenCV, MoreDimensions) {
    const Tensor t = Tensor::empty({2, 3, 4}, float32);
    const cv::Mat volume = to_mat(t, Channels::none).value();
    EXPECT_EQ(volume.dims, 3);
    EXPECT_EQ(volume.channels(), 1);
    EXPECT_EQ(&volume.at<float>(1, 2, 3), static_cast<float*>(t.data()) + 23);
    EXPECT_EQ(to_mat(Tensor::empty({2, 3, 4, 5}, float64)).value().dims, 4);
    EXPECT_TRUE(to_mat(Tensor::empty({0, 5}, uint8)).value().empty());
}

TEST(OpenCV, WhatNoMatCanSayIsRefused) {
    EXPECT_EQ(to_mat(Tensor::empty({2, 2}, isthmus::int64)).error().code(), ErrorCode::bad_dtype);
    EXPECT_EQ(to_mat(Tensor::empty({}, uint8)).error().code(), ErrorCode::bad_layout);
    const Tensor t = Tensor::empty({2, 2}, uint8);
    const Tensor frozen = t.as_read_only();
    EXPECT_EQ(to_mat(frozen).error().code(), ErrorCode::read_only);
    const ReadMat readable = read_mat(frozen).value();
    EXPECT_EQ(readable->data, t.data());
    EXPECT_EQ(cv::countNonZero(cv::Mat::zeros(2, 2, CV_8U)), 0);
    (void)cv::sum(*readable);
    char memory[4] = {};
    EXPECT_EQ(to_mat(Tensor::wrap(memory, {4}, {}, uint8, Device::cuda(), nullptr)).error().code(),
              ErrorCode::bad_device);
}

TEST(OpenCV, ATensorSharesAMat) {
    cv::Mat mat(4, 5, CV_32FC2, cv::Scalar(1, 2));
    const void* data = mat.data;
    const Tensor t = Tensor::own(cv::Mat(mat));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(layout::to_string(t.shape()), "(4, 5, 2)");
    EXPECT_TRUE(t.is_contiguous());
    mat.release();
    EXPECT_EQ((t.view<const float, 3>().value()(3, 4, 1)), 2);
    const Tensor part = Tensor::own(cv::Mat(cv::Mat(4, 5, CV_8U, cv::Scalar(7))(cv::Rect(1, 1, 2, 3))));
    EXPECT_EQ(layout::to_string(part.strides()), "(5, 1)");
    EXPECT_EQ((part.view<const std::uint8_t, 2>().value()(2, 1)), 7);
}

TEST(OpenCV, AReadMatIsAnInputArray) {
    const Tensor t = Tensor::empty({2, 2}, uint8);
    std::memset(t.data(), 3, 4);
    const ReadMat readable = read_mat(t.as_read_only()).value();
    EXPECT_EQ(cv::sum(readable)[0], 12);
    EXPECT_EQ(cv::countNonZero(readable), 4);
    cv::Mat doubled;
    cv::add(readable, readable, doubled);
    EXPECT_EQ(doubled.at<uchar>(1, 1), 6);
    EXPECT_EQ(cv::norm(readable, doubled, cv::NORM_INF), 3);
    static_assert(std::is_convertible_v<const ReadMat&, cv::InputArray> &&
                  std::is_convertible_v<const ReadMat&, const cv::Mat&>);
    static_assert(!std::is_convertible_v<const ReadMat&, cv::OutputArray> &&
                  !std::is_convertible_v<ReadMat&, cv::InputOutputArray>);
}

// A Mat cannot say that it is not to be written, but the tensor behind it can.
TEST(OpenCV, ATensorOfAMatOverReadOnlyMemoryIsReadOnly) {
    const Tensor t = Tensor::empty({4, 4}, uint8), frozen = t.as_read_only();
    const ReadMat readable = read_mat(frozen).value();
    EXPECT_TRUE(Tensor::own(cv::Mat(*readable)).read_only());
    EXPECT_TRUE(Tensor::own(cv::Mat((*readable)(cv::Rect(1, 1, 2, 2)))).read_only());
    EXPECT_TRUE(from_mat(*readable, frozen).read_only());
    EXPECT_FALSE(Tensor::own(readable->clone()).read_only());
    EXPECT_FALSE(Tensor::own(cv::Mat(to_mat(t).value())).read_only());
    cv::Mat mat = *readable;
    mat.create(7, 7, CV_8U);
    EXPECT_FALSE(Tensor::own(std::move(mat)).read_only()) << "memory of OpenCV's own by now";
}

TEST(OpenCV, AMatThatOwnsNothingNamesItsOwner) {
    auto memory = std::make_shared<std::vector<std::uint8_t>>(20, std::uint8_t{3});
    const cv::Mat mat(4, 5, CV_8U, memory->data());
    EXPECT_THROW(Tensor::own(cv::Mat(mat)), Error);
    const Tensor t = from_mat(mat, memory);
    EXPECT_EQ(memory.use_count(), 2);
    EXPECT_EQ(t.data(), memory->data());
}

}  // namespace
#endif
