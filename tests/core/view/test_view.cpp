// SPDX-License-Identifier: Apache-2.0
#define ISTHMUS_CHECK_BOUNDS 1  // in this file alone: see Checked below
#include <isthmus/core/view/view.h>

#include <array>
#include <complex>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/counting.h"

using isthmus::Device;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::View;
using isthmus_test::counting;

namespace {

TEST(View, ReadsAndWritesInPlace) {
    const Tensor t = counting({2, 3, 4}, 24);
    const auto v = t.view<float, 3>().value();
    EXPECT_EQ(v.data(), t.data());
    EXPECT_EQ(v(1, 2, 3), 23);
    v(0, 0, 1) = 100;
    EXPECT_EQ(static_cast<const float*>(t.data())[1], 100);
    EXPECT_EQ(v.extent(2), 4);
    EXPECT_EQ(v.stride(0), 12);
    EXPECT_EQ(v.size(), 24);
    EXPECT_FALSE(v.empty());
    EXPECT_EQ((View<float, 3>::ndim()), 3);
}

TEST(View, FollowsTheStrides) {
    const Tensor t = counting({2, 3}, 6);
    auto* data = static_cast<float*>(t.data());
    const auto turned = t.as_strided(data, {3, 2}, {1, 3}, isthmus::float32);
    EXPECT_EQ((turned.view<float, 2>().value()(2, 1)), 5);
    const auto backwards = t.as_strided(data + 5, {6}, {-1}, isthmus::float32);
    EXPECT_EQ((backwards.view<float, 1>().value()[5]), 0);
    const auto repeated = t.as_strided(data + 1, {1000, 2}, {0, 1}, isthmus::float32);
    EXPECT_EQ((repeated.view<const float, 2>().value()(999, 1)), 2);
}

TEST(View, OfNothingAndOfOne) {
    const auto none = Tensor::own(std::vector<float>(), {0, 4});
    const auto v = none.view<float, 2>().value();
    EXPECT_TRUE(v.empty());
    EXPECT_TRUE(v.span().empty());
    const auto one = counting({}, 1);
    EXPECT_EQ((one.view<float, 0>().value()()), 0);
}

TEST(View, SpanNeedsContiguousMemory) {
    const Tensor t = counting({2, 3}, 6);
    const auto span = t.view<float, 2>().value().span();
    EXPECT_EQ(span.size(), 6u);
    EXPECT_EQ(span.data(), t.data());
    const auto turned = t.as_strided(t.data(), {3, 2}, {1, 3}, isthmus::float32);
    try {
        (void)turned.view<float, 2>().value().span();
        FAIL();
    } catch (const isthmus::Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_layout);
        EXPECT_NE(std::string(e.what()).find("strides (1, 3)"), std::string::npos) << e.what();
    }
}

TEST(View, SelectTakesOneDimensionAway) {
    const Tensor t = counting({2, 3, 4}, 24);
    const auto row = t.view<float, 3>().value().select(1).select(2);
    static_assert(std::is_same_v<decltype(row), const View<float, 1>>);
    EXPECT_EQ(row[3], 23);
    EXPECT_EQ(row.extent(0), 4);
}

TEST(View, OneThatWritesServesAsOneThatReads) {
    const Tensor t = counting({4}, 4);
    const auto v = t.view<float, 1>().value();
    const View<const float, 1> reader = v;
    EXPECT_EQ(reader.data(), v.data());
    EXPECT_EQ(reader.span().size(), 4u);
}

template <class T, int N, class... C>
isthmus::Error refusal(const Tensor& t) {
    auto result = t.view<T, N, C...>();
    if (result) return isthmus::Error(ErrorCode{}, "no refusal");
    return result.error();
}

TEST(View, SaysWhatDiffers) {
    const Tensor t = counting({2, 3}, 6);
    const auto expect = [](const isthmus::Error& error, ErrorCode code, const char* text) {
        EXPECT_EQ(error.code(), code);
        EXPECT_EQ(error.kind(), isthmus::ErrorKind::value);
        EXPECT_STREQ(error.what(), text);
    };
    expect(refusal<double, 2>(t), ErrorCode::bad_dtype,
           "expected writable float64[:, :] on cpu, got float32[2, 3] on cpu: dtype differs");
    expect(refusal<const float, 3>(t), ErrorCode::bad_layout,
           "expected float32[:, :, :] on cpu, got float32[2, 3] on cpu: number of dimensions differs");
    expect(refusal<float, 2>(t.as_read_only()), ErrorCode::read_only,
           "expected writable float32[:, :] on cpu, got read-only float32[2, 3] on cpu: the memory is read-only");
    float memory[2];
    expect(refusal<float, 1>(Tensor::wrap(memory, {2}, {}, isthmus::float32, Device::cuda(1), nullptr)),
           ErrorCode::bad_device,
           "expected writable float32[:] on cpu, got float32[2] on cuda:1: the host must not touch this memory");
    expect(refusal<std::int32_t, 1>(Tensor::wrap(memory, {2}, {}, isthmus::uint32, Device::cpu(), nullptr)),
           ErrorCode::bad_dtype, "expected writable int32[:] on cpu, got uint32[2] on cpu: dtype differs");
    EXPECT_EQ((refusal<float, 1>(Tensor::wrap(memory, {1}, {}, isthmus::DType(kDLFloat, 32, 2), Device::cpu(), nullptr))
                   .code()),
              ErrorCode::bad_dtype);
}

TEST(View, ReadOnlyMemoryServesConstViews) {
    const float memory[2] = {3, 4};
    const Tensor t = Tensor::wrap(memory, {2}, {}, isthmus::float32, Device::cpu(), nullptr);
    EXPECT_EQ((t.view<const float, 1>().value()[1]), 4);
    EXPECT_EQ((refusal<float, 1>(t).code()), ErrorCode::read_only);
}

TEST(View, OverlappingMemoryServesConstViews) {
    float memory[6] = {0, 1, 2, 3, 4, 5};
    const auto lying = [&](std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
        return Tensor::wrap(memory, shape, strides, isthmus::float32, Device::cpu(), nullptr);
    };
    const Tensor windows = lying({4, 3}, {1, 1});
    EXPECT_EQ((windows.view<const float, 2>().value()(3, 2)), 5);
    EXPECT_EQ((refusal<float, 2>(windows).code()), ErrorCode::bad_layout);
    EXPECT_STREQ((refusal<float, 1>(lying({4}, {0})).what()),
                 "expected writable float32[:] on cpu, got float32[4] on cpu: strides (0,) of shape (4,) let elements "
                 "overlap, so "
                 "that one write would show in several of them; write to a copy");
    EXPECT_EQ((refusal<float, isthmus::dynamic_rank>(windows).code()), ErrorCode::bad_layout);
    EXPECT_EQ((refusal<float, 2, isthmus::inner_contiguous>(windows).code()), ErrorCode::bad_layout);
    EXPECT_EQ((refusal<float, 2>(lying({2, 3}, {1, 2})).code()), ErrorCode{}) << "columns side by side";
    EXPECT_EQ((refusal<float, 2>(lying({1, 3}, {0, 1})).code()), ErrorCode{}) << "a stride that is never used";
}

TEST(View, PinnedMemoryIsTheHosts) {
    float memory[2] = {};
    for (int type : {kDLCUDAHost, kDLROCMHost}) {
        const Tensor t = Tensor::wrap(memory, {2}, {}, isthmus::float32, Device(type, 0), nullptr);
        EXPECT_TRUE((t.view<float, 1>())) << type;
    }
    for (int type : {kDLCUDA, kDLCUDAManaged, kDLMetal, kDLExtDev, kDLOneAPI}) {
        const Tensor t = Tensor::wrap(memory, {2}, {}, isthmus::float32, Device(type, 0), nullptr);
        EXPECT_FALSE((t.view<float, 1>())) << type;
    }
}

struct alignas(64) Wide {
    char bytes[64];
};
struct Nibble {
    unsigned char raw;
};
// A type of this file, so that its View is not merged with one that another file compiled without the checks.
struct Checked {
    float value;
};
}  // namespace
template <>
struct isthmus::dtype_traits<Wide> {
    static constexpr DType value{kDLOpaqueHandle, 8, 64};
};
template <>
struct isthmus::dtype_traits<Nibble> {
    static constexpr DType value = isthmus::float4_e2m1fn;
};
template <>
struct isthmus::dtype_traits<Checked> {
    static constexpr DType value = isthmus::float32;
};
namespace {

TEST(View, NeedsTheAlignmentOfTheCppType) {
    alignas(64) char memory[192] = {};
    const auto at = [&](std::size_t offset) {
        return Tensor::wrap(memory + offset, {2}, {}, isthmus::dtype_of<Wide>(), Device::cpu(), nullptr);
    };
    const Tensor aligned = at(64);
    EXPECT_TRUE((aligned.view<Wide, 1>()));
    EXPECT_EQ((refusal<Wide, 1>(at(32)).code()), ErrorCode::bad_layout);
    const std::complex<double> z[1] = {{1, 2}};
    const Tensor complex = Tensor::wrap(z, {1}, {}, isthmus::complex128, Device::cpu(), nullptr);
    EXPECT_EQ((complex.view<const std::complex<double>, 1>().value()[0].imag()), 2);
}

TEST(View, OfNothingIsAlignedWhereverItIs) {
    using isthmus::dynamic_rank;
    alignas(64) char memory[192] = {};
    const auto at = [&](std::size_t offset, isthmus::DType dtype) {
        return Tensor::wrap(memory + offset, {2, 0}, {}, dtype, Device::cpu(), nullptr);
    };
    const Tensor wide = at(32, isthmus::dtype_of<Wide>()), doubles = at(1, isthmus::float64);
    EXPECT_TRUE((wide.view<Wide, 2>()));
    EXPECT_TRUE((doubles.view<double, 2>()));
    EXPECT_TRUE((doubles.view<double, 2, isthmus::aligned<64>, isthmus::c_contiguous>()));
    const auto any = doubles.view<const isthmus::any_dtype, dynamic_rank>().value();
    EXPECT_TRUE(any.as<double>().value().empty());
    EXPECT_EQ((any.as<float>().error().code()), ErrorCode::bad_dtype);
}

TEST(View, OfNothingAtNull) {
    int gone = 0;
    {
        const Tensor t =
            Tensor::wrap(static_cast<void*>(nullptr), {0, 3}, {}, isthmus::float32, Device::cpu(), [&] { ++gone; });
        EXPECT_TRUE((t.view<float, 2>()).value().span().empty());
        auto* managed = t.to_dlpack();
        EXPECT_NE(managed->dl_tensor.data, nullptr) << "whose deleter torch would not call";
        managed->deleter(managed);
        managed = Tensor::wrap(static_cast<void*>(nullptr), {0}, {}, isthmus::float32, Device(kDLMetal, 0), nullptr)
                      .to_dlpack();
        EXPECT_EQ(managed->dl_tensor.data, nullptr) << "which is a handle, not an address";
        managed->deleter(managed);
    }
    EXPECT_EQ(gone, 1);
}

TEST(View, OfBytesThatMeanBool) {
    unsigned char memory[5] = {0, 1, 2, 128, 255};
    const Tensor t = Tensor::wrap(memory, {5}, {}, isthmus::boolean, Device::cpu(), nullptr);
    const auto v = t.view<isthmus::ByteBool, 1>().value();
    static_assert(decltype(v)::words() == "bool[:] on cpu");
    int count = 0;
    for (bool set : v) count += set;
    EXPECT_EQ(count, 4);
    EXPECT_EQ(v[2], v[3]) << "both are true";
    v[4] = false;
    v[0] = v[3];
    EXPECT_EQ(memory[4], 0);
    EXPECT_TRUE(v[0]);
    for (isthmus::ByteBool& b : v) b = !b;
    EXPECT_EQ(memory[4], 1);
    EXPECT_FALSE((t.view<const std::uint8_t, 1>())) << "the dtype is bool";
}

// Steps of one byte over elements that share bytes would show wrong values.
TEST(View, OfSubByteElementsNeedsPaddedOnes) {
    unsigned char memory[4] = {};
    const Tensor packed = Tensor::wrap(memory, {4}, {}, isthmus::float4_e2m1fn, Device::cpu(), nullptr);
    EXPECT_EQ((refusal<Nibble, 1>(packed).code()), ErrorCode::bad_layout);
    const Tensor padded = Tensor::own(std::vector<Nibble>(4), {2, 2});
    EXPECT_TRUE(padded.is_padded());
    EXPECT_EQ(padded.nbytes(), 4);
    EXPECT_TRUE((padded.view<Nibble, 2>()));
}

TEST(ViewDeathTest, BoundsAreCheckedOnRequest) {
    const Tensor t = counting({2, 3}, 6);
    const auto v = t.view<Checked, 2>().value();
    EXPECT_DEATH((void)v(0, 3), "index 3 is out of bounds for dimension 1 of size 3");
    EXPECT_DEATH((void)v(-1, 0), "index -1 is out of bounds for dimension 0 of size 2");
    EXPECT_DEATH((void)v.select(2), "dimension 0");
    EXPECT_DEATH((void)v.extent(2), "dimension 2 of a view of 2 dimensions");
    EXPECT_DEATH((void)v.stride(-1), "dimension -1 of a view of 2 dimensions");
}

TEST(ViewDeathTest, NoDimensionIsReadOfAViewThatHasNone) {
    const Tensor one = counting({}, 1);
    const auto v = one.view<Checked, isthmus::dynamic_rank>().value();
    EXPECT_EQ(v().value, 0);
    EXPECT_DEATH((void)v(0), "1 indices for a view of 0 dimensions");
    EXPECT_DEATH((void)v.select(0), "dimension 0 of a view of 0 dimensions");
    EXPECT_DEATH((void)v.extent(0), "dimension 0 of a view of 0 dimensions");
}

TEST(View, ASizeThatTheTypeNamesIsThatOfItsElements) {
    using Image = isthmus::View<int, 3, isthmus::sizes<"h w 3">>;
    const Tensor t = Tensor::empty({4, 5, 3}, isthmus::int32);
    const Image image = t.view<Image>().value();
    EXPECT_EQ((std::array{image.extent(0), image.extent(1), image.extent(2)}), (std::array<std::int64_t, 3>{4, 5, 3}));
    EXPECT_EQ(image.select(0).extent(1), 3) << "a part has the sizes that it has";
    EXPECT_EQ(Image().extent(0), 0);
    EXPECT_EQ(Image().extent(2), 3) << "of the type";
    EXPECT_TRUE(Image().empty());
}

TEST(View, AnElementIsWhereTheStridesSay) {
    std::int32_t numbers[4 * 6];
    std::iota(std::begin(numbers), std::end(numbers), 0);
    const auto wrap = [&](isthmus::Shape shape, isthmus::Shape strides) {
        return Tensor::wrap(numbers, shape, strides, isthmus::int32, isthmus::Device::cpu(), nullptr);
    };
    const Tensor rows = wrap({4, 3}, {6, 1}), packed = wrap({4, 3, 2}, {6, 2, 1}), columns = wrap({6, 4}, {1, 6}),
                 all = wrap({24}, {1});
    const auto inner = rows.view<isthmus::View<const int, 2, isthmus::inner_contiguous>>().value();
    const auto c = packed.view<isthmus::View<const int, 3, isthmus::c_contiguous>>().value();
    const auto f = columns.view<isthmus::View<const int, 2, isthmus::f_contiguous>>().value();
    const auto line = all.view<isthmus::View<const int, 1, isthmus::c_contiguous>>().value();
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 3; ++j) {
            EXPECT_EQ(inner(i, j), 6 * i + j);
            EXPECT_EQ(c(i, j, 1), 6 * i + 2 * j + 1);
            EXPECT_EQ(f(j, i), 6 * i + j);
            EXPECT_EQ(line[6 * i + j], line(6 * i + j));
            EXPECT_EQ(line[6 * i + j], 6 * i + j);
        }
}

}  // namespace
