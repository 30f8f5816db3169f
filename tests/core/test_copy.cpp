// SPDX-License-Identifier: Apache-2.0
#include <isthmus/isthmus.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using isthmus::copy_of;
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

}  // namespace
