// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/layout.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace layout = isthmus::layout;

namespace {

using Dims = std::vector<std::int64_t>;
constexpr std::int64_t big = std::int64_t{1} << 32;

int rank(const Dims& dims) { return static_cast<int>(dims.size()); }

std::int64_t numel(const Dims& shape) {
    std::int64_t out = -1;
    return layout::numel(shape.data(), rank(shape), out) ? out : -1;
}
bool contiguous(const Dims& shape, const Dims& strides) {
    return layout::is_contiguous(shape.data(), strides.data(), rank(shape));
}
bool f_contiguous(const Dims& shape, const Dims& strides) {
    return layout::is_f_contiguous(shape.data(), strides.data(), rank(shape));
}

TEST(Layout, Numel) {
    EXPECT_EQ(numel({}), 1);
    EXPECT_EQ(numel({2, 3, 4}), 24);
    EXPECT_EQ(numel({2, 0, 4}), 0);
    EXPECT_EQ(numel({INT64_MAX}), INT64_MAX);
    EXPECT_EQ(numel({-1}), -1);
    EXPECT_EQ(numel({0, -1}), -1);
    EXPECT_EQ(numel({big, big}), -1);
    EXPECT_EQ(numel({INT64_MAX, 2}), -1);
    EXPECT_EQ(numel({big, big, 0}), -1) << "sizes that no framework takes back, even without elements";
}

TEST(Layout, NbytesOfWholeByteTypes) {
    std::int64_t out = 0;
    EXPECT_TRUE(layout::nbytes(7, isthmus::float32, false, out));
    EXPECT_EQ(out, 28);
    EXPECT_TRUE(layout::nbytes(3, isthmus::DType(kDLFloat, 32, 4), false, out));
    EXPECT_EQ(out, 48);
    EXPECT_TRUE(layout::nbytes(INT64_MAX, isthmus::int8, false, out));
    EXPECT_EQ(out, INT64_MAX);
    EXPECT_FALSE(layout::nbytes(INT64_MAX / 2 + 1, isthmus::int16, false, out));
    EXPECT_FALSE(layout::nbytes(INT64_MAX, isthmus::complex128, false, out));
}

TEST(Layout, DenseIsWithoutGapsAndOverlaps) {
    const auto dense = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
        return layout::is_dense(shape.data(), strides.data(), static_cast<int>(shape.size()));
    };
    EXPECT_TRUE(dense({}, {}));
    EXPECT_TRUE(dense({2, 3, 4}, {12, 4, 1}));
    EXPECT_TRUE(dense({4, 2, 3}, {1, 12, 4}));
    EXPECT_TRUE(dense({5}, {-1}));
    EXPECT_TRUE(dense({3, 2}, {1, -3}));
    EXPECT_TRUE(dense({1, 3, 1}, {99, 1, 0}));
    EXPECT_FALSE(dense({5}, {2}));
    EXPECT_FALSE(dense({2, 3}, {4, 1}));
    EXPECT_FALSE(dense({2, 3}, {1, 1}));
    EXPECT_FALSE(dense({2, 3}, {0, 1}));
    EXPECT_FALSE(dense({2, 2}, {INT64_MIN, 1}));
    EXPECT_FALSE(dense({INT64_MAX, 2}, {1, 2}));
    EXPECT_FALSE(dense({INT64_MAX, 2}, {1, INT64_MAX})) << "more elements than a number can say";
}

TEST(Layout, NbytesOfSubByteTypesArePackedUnlessPadded) {
    const auto fp4 = isthmus::float4_e2m1fn, fp6 = isthmus::float6_e2m3fn;
    std::int64_t out = 0;
    for (auto [numel, packed] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 1}, {2, 1}, {3, 2}, {1001, 501}}) {
        EXPECT_TRUE(layout::nbytes(numel, fp4, false, out));
        EXPECT_EQ(out, packed) << numel;
        EXPECT_TRUE(layout::nbytes(numel, fp4, true, out));
        EXPECT_EQ(out, numel);
    }
    EXPECT_TRUE(layout::nbytes(5, fp6, false, out));
    EXPECT_EQ(out, 4);  // 30 bits
    EXPECT_FALSE(layout::nbytes(INT64_MAX / 4 + 1, fp4, false, out)) << "the bits do not fit";
    EXPECT_FALSE(layout::nbytes(INT64_MAX / 4, fp4, false, out) && out < 0);
    EXPECT_FALSE(layout::nbytes(INT64_MAX / 6 + 1, fp6, false, out));
    EXPECT_TRUE(layout::nbytes(INT64_MAX, fp4, true, out));
}

TEST(Layout, RowMajorStrides) {
    const auto row_major = [](const Dims& shape) {
        Dims strides(shape.size(), -7);
        EXPECT_TRUE(layout::row_major(shape.data(), rank(shape), strides.data()));
        return strides;
    };
    EXPECT_EQ(row_major({}), Dims{});
    EXPECT_EQ(row_major({5}), Dims{1});
    EXPECT_EQ(row_major({2, 3, 4}), (Dims{12, 4, 1}));
    EXPECT_EQ(row_major({2, 1, 4}), (Dims{4, 4, 1}));
    EXPECT_EQ(row_major({2, 0, 4}), (Dims{4, 4, 1}));
    Dims strides(2), shape{big, big};
    EXPECT_FALSE(layout::row_major(shape.data(), 2, strides.data()));
}

TEST(Layout, ContiguityIgnoresTheStrideOfSizeOneAndOfNoElements) {
    EXPECT_TRUE(contiguous({}, {}));
    EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
    EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
    EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
    EXPECT_FALSE(contiguous({2, 3}, {3, 2}));
    EXPECT_FALSE(contiguous({2, 3}, {-3, 1}));
    EXPECT_FALSE(contiguous({4, 3}, {0, 1}));
    EXPECT_TRUE(contiguous({2, 1, 3}, {3, 999, 1}));
    EXPECT_TRUE(contiguous({1, 1}, {-5, 0}));
    EXPECT_TRUE(contiguous({3, 0, 2}, {7, 7, 7}));
    EXPECT_TRUE(contiguous({0, 2, 2}, {7, 7, 7})) << "a size of 0 behind ones that do not fit";
    EXPECT_TRUE(contiguous({0, big, big}, {1, 1, 1})) << "no elements, whatever the other sizes";
    EXPECT_FALSE(contiguous({2, big, big}, {0, big, 1}));
    EXPECT_TRUE(f_contiguous({2, 3}, {1, 2}));
    EXPECT_FALSE(f_contiguous({2, 3}, {3, 1}));
    EXPECT_TRUE(f_contiguous({1, 3}, {99, 1}));
    EXPECT_TRUE(f_contiguous({big, big, 0}, {1, 1, 1}));
    EXPECT_TRUE(f_contiguous({5}, {1}));
}

TEST(Layout, ExtentCountsBothWays) {
    std::int64_t first = 7, last = 7;
    const auto extent = [&](const Dims& shape, const Dims& strides, std::int64_t itemsize) {
        return layout::extent(shape.data(), strides.data(), rank(shape), itemsize, first, last);
    };
    EXPECT_TRUE(extent({}, {}, 4));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, 3);
    EXPECT_TRUE(extent({2, 3}, {3, 1}, 4));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, 23);
    EXPECT_TRUE(extent({2, 3}, {-3, 1}, 4));
    EXPECT_EQ(first, -12);
    EXPECT_EQ(last, 11);
    EXPECT_TRUE(extent({1000, 3}, {0, 1}, 2));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, 5);
    EXPECT_TRUE(extent({3}, {INT64_MIN / 2}, 1));
    EXPECT_EQ(first, INT64_MIN);
    EXPECT_FALSE(extent({4}, {INT64_MIN / 2}, 1));
    EXPECT_FALSE(extent({3}, {INT64_MIN / 2}, 2));
    EXPECT_FALSE(extent({3}, {INT64_MAX}, 1));
    EXPECT_FALSE(extent({2, 2}, {INT64_MAX, INT64_MAX}, 1)) << "the sum of two reaches";
    EXPECT_FALSE(extent({2}, {INT64_MAX}, 2));
    EXPECT_FALSE(extent({2}, {INT64_MAX / 3}, 3)) << "the last element's own bytes";
}

bool overlaps(Dims shape, Dims strides) {
    DLTensor t{};
    t.ndim = rank(shape);
    t.shape = shape.data();
    t.strides = strides.data();
    return layout::overlaps(t);
}

/// Every element's offset, one after the other.
bool overlaps_by_counting(const Dims& shape, const Dims& strides) {
    std::set<std::int64_t> seen;
    Dims index(shape.size(), 0);
    for (std::int64_t left = numel(shape); left > 0; --left) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) offset += index[d] * strides[d];
        if (!seen.insert(offset).second) return true;
        for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
    return false;
}

TEST(Layout, OverlapOfWhatFrameworksMake) {
    EXPECT_FALSE(overlaps({}, {}));
    EXPECT_FALSE(overlaps({3, 4}, {4, 1}));
    EXPECT_FALSE(overlaps({4, 3}, {1, 4})) << "transposed";
    EXPECT_FALSE(overlaps({5}, {-2})) << "reversed";
    EXPECT_FALSE(overlaps({1, 3}, {0, 1})) << "a stride that is never used";
    EXPECT_FALSE(overlaps({0, 3}, {0, 1})) << "no elements";
    EXPECT_FALSE(overlaps({2, 3}, {3, 2})) << "rows that reach past one another without meeting";
    EXPECT_TRUE(overlaps({4}, {0})) << "broadcast";
    EXPECT_TRUE(overlaps({2, 4, 3}, {3, 0, 1})) << "broadcast inside";
    EXPECT_TRUE(overlaps({4, 3}, {1, 1})) << "sliding windows";
    EXPECT_TRUE(overlaps({3, 4}, {2, 1}));
    EXPECT_TRUE(overlaps({4, 3}, {-1, 1}));
    EXPECT_TRUE(overlaps({2, 2, 2}, {3, 2, 1})) << "2 + 1 is 3";
}

TEST(Layout, OverlapIsTheSameByCounting) {
    std::mt19937 random(20260101);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    int overlapping = 0;
    for (int round = 0; round < 20'000; ++round) {
        Dims shape(1 + static_cast<std::size_t>(below(5))), strides;
        for (auto& size : shape) {
            size = below(6);
            strides.push_back(below(61) - 30);
        }
        const bool wanted = overlaps_by_counting(shape, strides);
        overlapping += wanted;
        ASSERT_EQ(overlaps(shape, strides), wanted) << layout::to_string(shape) << " " << layout::to_string(strides);
    }
    EXPECT_GT(overlapping, 1000);
    EXPECT_LT(overlapping, 19'000);
}

/// Two tensors of bytes or of wider elements over one array, in any direction.
struct Placed {
    Dims shape, strides;
    std::int64_t start;
    isthmus::DType dtype;
    DLTensor over(unsigned char* memory) {
        return {memory + start, {kDLCPU, 0}, static_cast<int>(shape.size()), dtype, shape.data(), strides.data(), 0};
    }
    std::set<std::int64_t> bytes() const {
        std::set<std::int64_t> all;
        Dims index(shape.size(), 0);
        for (std::int64_t left = numel(shape); left > 0; --left) {
            std::int64_t at = start;
            for (std::size_t d = 0; d < shape.size(); ++d) at += index[d] * strides[d] * dtype.itemsize();
            for (std::int64_t i = 0; i < dtype.itemsize(); ++i) all.insert(at + i);
            for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
        }
        return all;
    }
};

TEST(Layout, SharedElementsAreTheSameByCounting) {
    std::mt19937 random(20261128);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    static unsigned char memory[4096];
    const auto placed = [&] {
        Placed made;
        made.dtype = below(2) != 0 ? isthmus::uint8 : isthmus::int32;
        made.shape.resize(static_cast<std::size_t>(below(4)));
        for (auto& size : made.shape) {
            size = below(5);
            made.strides.push_back(below(25) - 12);
        }
        made.start = 2048 + below(40);
        return made;
    };
    int sharing = 0;
    for (int round = 0; round < 20'000; ++round) {
        Placed a = placed(), b = placed();
        const auto of_a = a.bytes(), of_b = b.bytes();
        const bool expected = std::any_of(of_a.begin(), of_a.end(), [&](auto byte) { return of_b.contains(byte); });
        sharing += expected;
        const DLTensor x = a.over(memory), y = b.over(memory);
        ASSERT_EQ(layout::share_elements(x, y), expected) << layout::to_string(a.shape) << layout::to_string(a.strides)
                                                          << layout::to_string(b.shape) << layout::to_string(b.strides);
        ASSERT_EQ(layout::share_elements(y, x), expected);
    }
    EXPECT_GT(sharing, 2000);
    EXPECT_LT(sharing, 18'000);
}

TEST(Layout, PartsOfALargeMatrixShareNothing) {
    const std::int64_t rows = 1 << 20, columns = 64;
    static float first[1];
    const auto part = [&](std::int64_t row, std::int64_t column, std::int64_t row_step, std::int64_t column_step) {
        Placed made{{(rows - row + row_step - 1) / row_step, columns / 2 / column_step},
                    {columns * row_step, column_step},
                    (row * columns + column) * 4,
                    isthmus::float32};
        return made;
    };
    const auto share = [&](Placed a, Placed b) {
        auto* memory = reinterpret_cast<unsigned char*>(first);
        const DLTensor x = a.over(memory), y = b.over(memory);
        return layout::share_elements(x, y);
    };
    EXPECT_FALSE(share(part(0, 0, 1, 1), part(0, columns / 2, 1, 1))) << "left and right half";
    EXPECT_FALSE(share(part(0, 0, 2, 1), part(1, 0, 2, 1))) << "even and odd rows";
    EXPECT_FALSE(share(part(0, 0, 1, 2), part(0, 1, 1, 2))) << "even and odd columns";
    EXPECT_TRUE(share(part(0, 0, 1, 1), part(0, columns / 2 - 1, 1, 1))) << "one column is in both";
    EXPECT_TRUE(share(part(0, 0, 2, 1), part(1, 0, 3, 1))) << "row 4 is in both";
}

TEST(Layout, OverlapThatWouldTakeTooLongIsTakenForOne) {
    // Sums of such strides are all different, and so alike that nothing short of trying them tells.
    std::mt19937_64 random(20260101);
    Dims strides;
    for (int i = 0; i < 14; ++i) strides.push_back((std::int64_t{1} << 40) + static_cast<std::int64_t>(random() >> 30));
    const Dims shape(strides.size(), 2);
    EXPECT_FALSE(overlaps_by_counting(shape, strides));
    EXPECT_TRUE(overlaps(shape, strides));
}

TEST(Layout, OverlapOfLargeTensors) {
    const std::int64_t big = 1 << 20;
    EXPECT_FALSE(overlaps({big, big}, {big, 1}));
    EXPECT_FALSE(overlaps({big, big}, {1, big}));
    EXPECT_TRUE(overlaps({big, big}, {big - 1, 1}));
    EXPECT_TRUE(overlaps({big, big, 2}, {1, 1, big}));
    EXPECT_FALSE(overlaps({big, big}, {big + 1, 1})) << "a gap at the end of each row";
    EXPECT_FALSE(overlaps({big, 1000}, {1001, big * 4})) << "columns far apart";
    EXPECT_FALSE(overlaps({1000, 1000}, {1000 + 1, 1000 + 3})) << "steps that would cancel out only beyond the ends";
    EXPECT_TRUE(overlaps({2, 2}, {INT64_MAX, INT64_MAX})) << "too far to be told: nobody has such memory";
}

TEST(Layout, WhatHasNoElementsSharesNoMemory) {
    float memory[16] = {};
    std::int64_t sizes[] = {2, 0}, strides[] = {4, 1}, all[] = {4, 4};
    const DLTensor none{memory + 5, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes, strides, 0};
    const DLTensor whole{memory, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, all, strides, 0};
    EXPECT_FALSE(layout::may_share(none, whole));
    EXPECT_FALSE(layout::may_share(whole, none));
    EXPECT_TRUE(layout::may_share(whole, whole));
    EXPECT_EQ(layout::addresses(none).begin, 0u);
    EXPECT_EQ(layout::addresses(none).end, 0u);
}

TEST(Layout, InWordsAsPythonWritesThem) {
    EXPECT_EQ(layout::to_string(Dims{}), "()");
    EXPECT_EQ(layout::to_string(Dims{7}), "(7,)");
    EXPECT_EQ(layout::to_string(Dims{480, 640, -3}), "(480, 640, -3)");
}

}  // namespace
