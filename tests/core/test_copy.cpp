// SPDX-License-Identifier: Apache-2.0
#include <isthmus/converted.h>
#include <isthmus/isthmus.h>

#include <complex>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using isthmus::copy_of;
using isthmus::Device;
using isthmus::ErrorCode;
using isthmus::Result;
using isthmus::Tensor;
using Dims = std::vector<std::int64_t>;

/// Twelve floats from 0 on, described by whoever calls.
struct Source {
    std::vector<float> elements = std::vector<float>(12);
    Dims shape, strides;

    Source(Dims shape, Dims strides) : shape(std::move(shape)), strides(std::move(strides)) {
        std::iota(elements.begin(), elements.end(), 0.f);
    }
    DLTensor descriptor(bool with_strides, std::uint64_t byte_offset = 0) {
        return {elements.data(),  {kDLCPU, 0},  static_cast<int>(shape.size()),
                isthmus::float32, shape.data(), with_strides ? strides.data() : nullptr,
                byte_offset};
    }
};

std::vector<float> values(const isthmus::Tensor& t) {
    const auto* data = static_cast<const float*>(t.data());
    return {data, data + t.numel()};
}

// DLPack: strides can be NULL, indicating the tensor is compact and row-major (before 1.2 by every producer, and since
// then by whoever has no dimensions).
TEST(Copy, WithoutStridesIsRowMajor) {
    for (const Dims& shape :
         {Dims{12}, Dims{3, 4}, Dims{2, 3, 2}, Dims{1, 12}, Dims{12, 1}, Dims{}, Dims{0, 4}, Dims{3, 0}}) {
        Source source(shape, {});
        const auto copy = copy_of(source.descriptor(false));
        ASSERT_TRUE(copy.has_value());
        EXPECT_EQ(Dims(copy->shape().begin(), copy->shape().end()), shape);
        EXPECT_TRUE(copy->is_contiguous());
        EXPECT_TRUE(copy->is_copied());
        EXPECT_FALSE(copy->read_only());
        const auto n = static_cast<std::size_t>(copy->numel());
        EXPECT_EQ(values(*copy),
                  std::vector<float>(source.elements.begin(), source.elements.begin() + static_cast<long>(n)));
        if (n > 0) {
            EXPECT_NE(copy->data(), source.elements.data());
        }
    }
}

TEST(Copy, WithoutStridesBeginsAtTheOffset) {
    Source source({2, 2}, {});
    const auto copy = copy_of(source.descriptor(false, 4 * sizeof(float)));
    ASSERT_TRUE(copy.has_value());
    EXPECT_EQ(values(*copy), (std::vector<float>{4, 5, 6, 7}));
}

TEST(Copy, OfSubByteElementsWithoutStrides) {
    unsigned char bytes[] = {0x21, 0x43};
    std::int64_t shape[] = {4};
    const DLTensor packed{bytes, {kDLCPU, 0}, 1, isthmus::float4_e2m1fn, shape, nullptr, 0};
    const auto copy = copy_of(packed);
    ASSERT_TRUE(copy.has_value());
    EXPECT_EQ(std::memcmp(copy->data(), bytes, 2), 0);
}

TEST(Copy, WithStridesFollowsThem) {
    Source source({3, 2}, {1, 6});
    const auto copy = copy_of(source.descriptor(true));
    ASSERT_TRUE(copy.has_value());
    EXPECT_EQ(values(*copy), (std::vector<float>{0, 6, 1, 7, 2, 8}));
}

/// Small and the same everywhere.
struct Numbers {
    std::uint64_t state = 1;
    std::int64_t below(std::int64_t limit) noexcept {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(limit));
    }
};

/// The elements one by one, by their indices.
std::vector<char> copied_by_hand(const DLTensor& t, std::int64_t itemsize) {
    std::vector<char> out;
    Dims index(static_cast<std::size_t>(t.ndim));
    for (;;) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * t.strides[d];
        const char* from = static_cast<const char*>(t.data) + at * itemsize;
        out.insert(out.end(), from, from + itemsize);
        auto d = static_cast<int>(index.size()) - 1;
        for (; d >= 0; --d) {
            if (++index[static_cast<std::size_t>(d)] < t.shape[d]) break;
            index[static_cast<std::size_t>(d)] = 0;
        }
        if (d < 0) return out;
    }
}

// Of every width that has loops of its own, and of others: axes in any order, steps forwards, backwards and in place,
// sizes around the blocks, at any address, with untouched memory around the copy.
TEST(Copy, OfAnyStridesIsThatOfEachElement) {
    Numbers numbers;
    const isthmus::DType dtypes[] = {isthmus::uint8,
                                     isthmus::uint16,
                                     isthmus::float32,
                                     isthmus::float64,
                                     isthmus::complex128,
                                     isthmus::DType(kDLUInt, 8, 3),
                                     isthmus::DType(kDLFloat, 32, 3),
                                     isthmus::DType(kDLFloat, 64, 9)};
    const std::int64_t sizes[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64, 65, 130, 515};
    for (int round = 0; round < 4000; ++round) {
        const isthmus::DType dtype = dtypes[numbers.below(8)];
        const std::int64_t itemsize = dtype.itemsize();
        const auto ndim = static_cast<std::size_t>(numbers.below(5));
        Dims shape(ndim), strides(ndim), order(ndim);
        std::int64_t numel = 1, span = 1, first = 0;
        for (std::size_t d = 0; d < ndim; ++d) {
            const std::int64_t size = sizes[numbers.below(round % 4 == 0 ? 14 : 6)];
            shape[d] = numel * size <= 20000 ? size : 1;
            numel *= shape[d];
            order[d] = static_cast<std::int64_t>(d);
        }
        for (std::size_t d = ndim; d > 1; --d)
            std::swap(order[d - 1], order[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(d)))]);
        for (const std::int64_t at : order) {
            const auto d = static_cast<std::size_t>(at);
            const std::int64_t kind = numbers.below(10);
            const std::int64_t step = kind == 0 ? 0 : kind <= 2 ? 2 * span : kind == 3 ? 3 * span : span;
            strides[d] = step;
            span += step * (shape[d] - 1) + (kind == 4 ? 1 : 0);
            if (kind == 5) {
                strides[d] = -step;
                first += step * (shape[d] - 1);
            }
        }
        const auto offset = static_cast<std::size_t>(numbers.below(4));
        std::vector<char> source(offset + static_cast<std::size_t>(span * itemsize));
        for (char& byte : source) byte = static_cast<char>(numbers.below(256));
        const DLTensor t{source.data() + offset + first * itemsize,
                         {kDLCPU, 0},
                         static_cast<int>(ndim),
                         dtype,
                         shape.data(),
                         strides.data(),
                         0};
        const std::vector<char> expected = copied_by_hand(t, itemsize);
        std::vector<char> around(expected.size() + 128 + offset, char{42});
        isthmus::detail::copy_elements(t, around.data() + 64 + offset);
        const char* copy = around.data() + 64 + offset;
        ASSERT_EQ(std::memcmp(copy, expected.data(), expected.size()), 0)
            << dtype.name() << isthmus::layout::to_string(shape) << isthmus::layout::to_string(strides);
        for (std::size_t i = 0; i < 64 + offset; ++i) ASSERT_EQ(around[i], 42);
        for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(copy[expected.size() + i], 42);
    }
}

TEST(Copy, OfWhatIsNotSoundIsRefused) {
    Source source({3, 4}, {});
    DLTensor t = source.descriptor(false);
    t.data = nullptr;
    EXPECT_FALSE(copy_of(t).has_value());
    t = source.descriptor(false);
    t.ndim = -1;
    EXPECT_FALSE(copy_of(t).has_value());
    t = source.descriptor(false);
    t.shape = nullptr;
    EXPECT_FALSE(copy_of(t).has_value());
    t = source.descriptor(false);
    t.dtype = {99, 32, 1};
    EXPECT_FALSE(copy_of(t).has_value());
}

TEST(Copy, OfMemoryThatTheHostMustNotTouchIsRefused) {
    Source source({3, 4}, {});
    DLTensor t = source.descriptor(false);
    t.device = {kDLCUDA, 1};
    const auto copy = copy_of(t);
    ASSERT_FALSE(copy.has_value());
    EXPECT_EQ(copy.error().code(), isthmus::ErrorCode::bad_device);
    EXPECT_NE(copy.error().what(), std::string()) << "it says where the tensor is";
}

TEST(Copy, OfNoElementsWritesNothing) {
    for (const Dims& shape : {Dims{0, 2}, Dims{2, 0}, Dims{3, 0, 2}}) {
        Source source(shape, {});
        const Dims strides(shape.size(), 1);
        DLTensor t = source.descriptor(false);
        t.strides = const_cast<std::int64_t*>(strides.data());
        char out = 'x';
        isthmus::detail::copy_elements(t, &out);
        EXPECT_EQ(out, 'x');
    }
}

template <class T>
Result<Tensor> converted_to(const Tensor& t) {
    return isthmus::detail::convert_tensor(t.block()->dl,
                                           isthmus::detail::Wanted<T, 1, isthmus::converted>::requirement);
}

/// Each has one reason, and nothing of the memory is read.
TEST(Copy, WhatDoesNotBecomeTheWantedNumbersIsRefused) {
    const Tensor whole = Tensor::own(std::vector<std::int32_t>{1, 2, 3});
    const Tensor complex = Tensor::own(std::vector<std::complex<float>>{{1, 2}});
    auto* elsewhere = reinterpret_cast<void*>(0x7f0000000000);
    const Tensor on_gpu = Tensor::wrap(elsewhere, {3}, {}, isthmus::float32, Device(kDLCUDA, 0), nullptr);
    EXPECT_EQ((converted_to<const double>(whole).value().dtype()), isthmus::float64);
    EXPECT_EQ((converted_to<const isthmus::floating>(whole).error().code()), ErrorCode::bad_dtype)
        << "of several dtypes none is the one to convert to";
    EXPECT_EQ((converted_to<const float>(complex).error().code()), ErrorCode::bad_dtype);
    EXPECT_EQ((converted_to<const double>(on_gpu).error().code()), ErrorCode::bad_device);
    EXPECT_EQ((converted_to<const float>(on_gpu).error().code()), ErrorCode::bad_device) << "the same dtype";
}

}  // namespace
