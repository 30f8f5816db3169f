// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/shape.h>

#include <array>
#include <vector>

#include <gtest/gtest.h>

using isthmus::Shape;

namespace {

using Dims = std::vector<std::int64_t>;
Dims taken(const Shape& shape) { return {shape.begin(), shape.end()}; }

TEST(Shape, FromBracedLists) {
    EXPECT_EQ(taken({}), Dims{});
    EXPECT_EQ(taken({2, 3}), (Dims{2, 3}));
    EXPECT_EQ(taken({-1}), Dims{-1});
    EXPECT_EQ(taken({std::int64_t{1} << 40, 2}), (Dims{std::int64_t{1} << 40, 2}));
}

TEST(Shape, FromRangesOfAnyInteger) {
    EXPECT_EQ(taken(std::vector<int>{2, 3}), (Dims{2, 3}));
    EXPECT_EQ(taken(std::array<std::uint16_t, 2>{2, 65535}), (Dims{2, 65535}));
    const Dims longs{5, 6, 7};
    EXPECT_EQ(taken(longs), longs);
    EXPECT_EQ(Shape(longs).data(), longs.data()) << "a range of int64 is looked at, not copied";
    EXPECT_EQ(Shape(std::span<const std::int64_t>(longs).subspan(1))[0], 6);
}

TEST(Shape, TooManyAreCountedAndNotCopied) {
    const std::vector<int> many(1000, 1);
    const Shape shape(many);
    EXPECT_EQ(shape.size(), 1000u) << "whoever takes it sees that it is too long";
}

TEST(SizesList, EqualsWhatHasTheSameNumbers) {
    const isthmus::SizesList list{2, 3};
    EXPECT_TRUE(list == (Dims{2, 3}));
    EXPECT_TRUE(list == (std::array<int, 2>{2, 3}));
    EXPECT_FALSE(list == (Dims{2, 4}));
    EXPECT_FALSE(list == (Dims{4, 3}));
    EXPECT_FALSE(list == (Dims{2, 3, 4})) << "more than it has";
    EXPECT_FALSE(list == Dims{2});
    EXPECT_FALSE(isthmus::SizesList{} == Dims{2});
}

}  // namespace
