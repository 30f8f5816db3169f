// SPDX-License-Identifier: Apache-2.0
// Parts and other shapes of a view, and what its type still knows of them.
#include <isthmus/core/view/window.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

/// The elements of a view of two dimensions, by index.
template <class V>
std::vector<float> elements(const V& view) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < view.extent(0); ++i)
        for (std::int64_t j = 0; j < view.extent(1); ++j) out.push_back(view(i, j));
    return out;
}

template <class F>
std::string thrown(F f) {
    try {
        (void)f();
    } catch (const Error& error) {
        return error.what();
    }
    return "(nothing)";
}

TEST(Window, SelectOfAnyDimension) {
    const Tensor t = counting({2, 3, 4}, 24);
    const auto v = t.view<float, 3>().value();
    EXPECT_EQ(elements(v.select(2, 1)), (std::vector<float>{1, 5, 9, 13, 17, 21}));
    EXPECT_EQ(elements(v.select(0, 1)), elements(v.select(1)));
    static_assert(std::is_same_v<decltype(v.select(0, 1)), View<float, 2>>);
    EXPECT_EQ(v.select(1).select(2).select(3)(), 23) << "down to one element";
    const auto strict = t.view<float, 3, c_contiguous>().value();
    static_assert(std::is_same_v<decltype(strict.select(1)), View<float, 2, c_contiguous>>);
    static_assert(std::is_same_v<decltype(strict.select(0, 1)), View<float, 2>>);
    const auto rows = t.view<float, 3, inner_contiguous>().value();
    static_assert(std::is_same_v<decltype(rows.select(1)), View<float, 2, inner_contiguous>>);
}

TEST(Window, Slice) {
    const Tensor t = counting({4, 6}, 24);
    const auto v = t.view<const float, 2, c_contiguous>().value();
    const auto part = v.slice(0, 1, 3).slice(1, -3, INT64_MAX, 2);
    static_assert(std::is_same_v<decltype(part), const View<const float, 2>>);
    EXPECT_EQ(elements(part), (std::vector<float>{9, 11, 15, 17}));
    EXPECT_TRUE(v.slice(1, 6).empty());
    EXPECT_EQ(v.slice(1, 6).data(), v.data()) << "nothing lies behind the end";
    EXPECT_EQ(thrown([&] { return v.slice(2, 0); }), "slice(): found dimension 2; expected one of 2");
}

TEST(Window, TransposeKnowsItsOrder) {
    const Tensor t = counting({2, 3}, 6);
    const auto turned = t.view<float, 2, c_contiguous>().value().transpose();
    static_assert(std::is_same_v<decltype(turned), const View<float, 2, f_contiguous>>);
    static_assert(std::is_same_v<decltype(turned.transpose()), View<float, 2, c_contiguous>>);
    EXPECT_EQ(elements(turned), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    const Tensor cube = counting({2, 3, 4}, 24);
    const auto v = cube.view<float, 3>().value().transpose({2, 0, 1});
    static_assert(std::is_same_v<decltype(v), const View<float, 3>>);
    EXPECT_EQ(v(3, 1, 2), 23);
    EXPECT_EQ(thrown([&] { return v.transpose({0, 1}); }),
              "transpose(): axes (0, 1) are not the 3 dimensions, each once");
}

TEST(Window, Reshape) {
    const Tensor t = counting({2, 6}, 12);
    const auto v = t.view<float, 2, c_contiguous>().value();
    const auto other = v.reshape({3, -1});
    static_assert(std::is_same_v<decltype(other), const View<float, 2, c_contiguous>>);
    EXPECT_EQ(elements(other), elements(v));
    const std::int64_t rows = 4;
    EXPECT_EQ((t.view<float, 2>().value().reshape({rows, 3})(3, 2)), 11);
    const auto column = v.slice(1, 0, 2);
    EXPECT_EQ(elements(column.reshape({2, 2})), (std::vector<float>{0, 1, 6, 7}));
    EXPECT_NE(thrown([&] { return column.reshape({4}); }).find("only in a copy"), std::string::npos);
    const Tensor copy = copy_of(column).value().reshape({4});
    EXPECT_EQ((copy.view<const float, 1>().value()[3]), 7);
}

TEST(Window, WhatIsBroadcastIsToBeRead) {
    const Tensor t = counting({3}, 3);
    const auto wide = t.view<float, 1>().value().broadcast_to({2, 3});
    static_assert(std::is_same_v<decltype(wide), const View<const float, 2>>);
    EXPECT_EQ(elements(wide), (std::vector<float>{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(thrown([&] { return wide.broadcast_to({2, 2}); }),
              "broadcast_to(): shape (2, 3) does not broadcast to (2, 2)");
}

TEST(Window, ContiguousIsATypeAndNoCopy) {
    const Tensor t = counting({2, 3}, 6);
    const auto v = t.view<float, 2>().value();
    static_assert(std::is_same_v<decltype(v.contiguous()), View<float, 2, c_contiguous>>);
    EXPECT_EQ(v.contiguous().data(), t.data());
    EXPECT_EQ(thrown([&] { return v.transpose().contiguous(); }),
              "contiguous(): found strides (1, 3) for shape (3, 2); expected contiguous memory");
    const Tensor copy = copy_of(v.transpose()).value();
    EXPECT_EQ((elements(copy.view<const float, 2, c_contiguous>().value())), elements(v.transpose()));
}

TEST(Window, BytesAndDevice) {
    const Tensor t = counting({2, 3}, 6);
    const auto v = t.view<float, 2>().value();
    static_assert(v.itemsize() == 4 && v.dtype() == float32 && v.device() == Device::cpu());
    EXPECT_EQ(v.nbytes(), 24);
    const auto set = t.view<View<const one_of<float, double>, 2>>().value();
    EXPECT_EQ(set.itemsize(), 4);
    EXPECT_EQ(set.nbytes(), 24);
    EXPECT_EQ(set.device(), Device::cpu());
    static_assert(sizeof(View<float, 2>) == sizeof(void*) + 4 * sizeof(std::int64_t),
                  "the host's memory has no device to keep");

    float memory[6] = {};
    const Tensor far = Tensor::wrap(memory, {2, 3}, {}, float32, Device::cuda(3), nullptr);
    const auto on_gpu = far.view<float, 2, on_cuda, c_contiguous>().value();
    EXPECT_EQ(on_gpu.device(), Device::cuda(3));
    EXPECT_EQ((far.view<View<const floating, 2, on_any_device>>().value().device()), Device::cuda(3));
    const View<const float, 2, on_cuda> looser = on_gpu;
    EXPECT_EQ(looser.device(), Device::cuda(3));
    const auto part = on_gpu.select(1).slice(0, 1);
    static_assert(std::is_same_v<decltype(part), const View<float, 1, on_cuda>>);
    EXPECT_EQ(part.device(), Device::cuda(3));
    EXPECT_EQ(part.data(), memory + 4);
    static_assert(!std::is_invocable_v<decltype(part), int>, "the host must not read it");
}

TEST(Window, OfAHandleSaysWhereTheElementsBegin) {
    int handle = 0;
    const Tensor t = Tensor::wrap(&handle, {4, 3}, {}, float32, Device(kDLOpenCL, 0), nullptr);
    const Tensor part = t.select(0, 2);
    const auto v = part.view<float, 1, on<kDLOpenCL>, c_contiguous>().value();
    EXPECT_EQ(static_cast<void*>(v.data()), &handle);
    EXPECT_EQ(v.byte_offset(), 6 * sizeof(float));
    const View<const float, 1, on<kDLOpenCL>> looser = v;
    EXPECT_EQ(looser.byte_offset(), 6 * sizeof(float));
    EXPECT_EQ((part.view<const any_dtype, 1, on_any_device>().value().as<float>().value().byte_offset()),
              6 * sizeof(float));
    float memory[12] = {};
    const Tensor far = Tensor::wrap(memory, {4, 3}, {}, float32, Device::cuda(), nullptr).select(0, 2);
    EXPECT_EQ((far.view<float, 1, on_any_device>().value().byte_offset()), 0u) << "part of the address";
}

template <class V>
concept HasParts = requires(const V& v) { v.select(0); };
template <class V>
concept HasPartsOfAnyDimension = requires(const V& v) { v.slice(0, 1); };

TEST(Window, AHandleHasNoPartsAndADynamicRankNoSizesOfItsOwn) {
    static_assert(HasParts<View<float, 2, on_cuda>> && !HasParts<View<float, 2, on<kDLOpenCL>>>);
    static_assert(!HasParts<View<float, 2, on_any_device>>, "which may be a handle");
    static_assert(HasParts<View<float, dynamic_rank>> && !HasPartsOfAnyDimension<View<float, dynamic_rank>>);
}

TEST(Window, OneDimensionIsARange) {
    using Any = View<float, 1>;
    using Strict = View<const float, 1, c_contiguous>;
    static_assert(std::ranges::random_access_range<Any> && !std::ranges::contiguous_range<Any>);
    static_assert(std::ranges::contiguous_range<Strict> && std::ranges::borrowed_range<Strict>);
    static_assert(std::is_convertible_v<Any, std::span<const float>> &&
                  std::is_convertible_v<Strict, std::span<const float>>);
    static_assert(!std::is_convertible_v<View<const float, 1>, std::span<float>>);
    static_assert(!std::ranges::range<View<float, 2>> && !std::ranges::range<View<float, 1, on_cuda>>);
    const Tensor t = counting({4, 3}, 12);
    const auto column = t.view<float, 2>().value().select(1, 1);
    EXPECT_EQ(std::vector<float>(column.begin(), column.end()), (std::vector<float>{1, 4, 7, 10}));
    EXPECT_EQ(std::accumulate(column.begin(), column.end(), 0.f), 22);
    std::sort(column.begin(), column.end(), std::greater<>());
    EXPECT_EQ(std::vector<float>(column.begin(), column.end()), (std::vector<float>{10, 7, 4, 1}));
    EXPECT_EQ(column.begin()[2], 4);
    EXPECT_EQ(*(2 + column.begin()), 4);
    EXPECT_EQ(*--column.end(), 1);
    EXPECT_EQ(column.end() - column.begin(), 4);
    EXPECT_LT(column.begin(), column.end());
    EXPECT_EQ(thrown([&] { return std::span<float>(column).size(); }),
              "span(): found strides (3,) for shape (4,); expected contiguous memory");
    const std::span<const float> row = t.view<float, 2>().value().select(0);
    EXPECT_EQ(row.size(), 3u);
}

}  // namespace
