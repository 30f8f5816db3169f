// SPDX-License-Identifier: Apache-2.0
#include "src/core/validate.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

using isthmus::DType;
using isthmus::ErrorCode;
using isthmus::Flags;
namespace flag = isthmus::flag;

namespace {

using Dims = std::vector<std::int64_t>;

/// A descriptor that is sound until a test spoils one field.
struct Descriptor {
    Dims shape{2, 3}, strides{3, 1};
    alignas(64) char memory[256] = {};
    DLTensor dl{memory, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, nullptr, nullptr, 0};
    Flags flags = 0;

    Descriptor() { place(); }
    void place() {
        dl.ndim = static_cast<std::int32_t>(shape.size());
        dl.shape = shape.data();
        dl.strides = strides.data();
    }
    void lie(Dims sizes, Dims steps) {
        shape = std::move(sizes);
        strides = std::move(steps);
        place();
    }
    bool sound() const { return isthmus::detail::is_sound(dl, flags); }
    isthmus::Error why() const { return isthmus::detail::explain_unsound(dl, flags, "x"); }
};

void expect_refused(const Descriptor& d, ErrorCode code, const std::string& words) {
    EXPECT_FALSE(d.sound());
    const isthmus::Error error = d.why();
    EXPECT_STREQ(isthmus::error_code_name(error.code()), isthmus::error_code_name(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).rfind("argument 'x': ", 0), 0u) << error.what();
}

TEST(Validate, ASoundDescriptorIsSound) {
    Descriptor d;
    EXPECT_TRUE(d.sound());
    d.dl.strides = nullptr;
    EXPECT_TRUE(d.sound()) << "NULL strides mean row-major";
    d.lie({}, {});
    d.dl.shape = d.dl.strides = nullptr;
    EXPECT_TRUE(d.sound()) << "no dimensions need no shape";
}

TEST(Validate, Flags) {
    Descriptor d;
    d.flags = flag::read_only | flag::copied | flag::padded;
    EXPECT_TRUE(d.sound());
    d.flags = 8;
    expect_refused(d, ErrorCode::unsupported_version, "flags 0x8");
    d.flags = Flags{1} << 63;
    expect_refused(d, ErrorCode::unsupported_version, "flags 0x8000000000000000");
}

TEST(Validate, Ndim) {
    Descriptor d;
    d.dl.ndim = -1;
    expect_refused(d, ErrorCode::bad_layout, "ndim is -1");
    d.lie(Dims(65, 1), Dims(65, 1));
    expect_refused(d, ErrorCode::bad_layout, "ndim is 65; expected 0 to 64");
    d.lie(Dims(64, 1), Dims(64, 1));
    EXPECT_TRUE(d.sound());
}

TEST(Validate, Shape) {
    Descriptor d;
    d.dl.shape = nullptr;
    expect_refused(d, ErrorCode::bad_layout, "shape is NULL with ndim 2");
    d.lie({2, -3}, {3, 1});
    expect_refused(d, ErrorCode::bad_layout, "(2, -3) has a negative size in dimension 1");
    d.lie({-1, 0}, {1, 1});
    expect_refused(d, ErrorCode::bad_layout, "dimension 0");
    d.lie({INT64_MIN}, {1});
    expect_refused(d, ErrorCode::bad_layout, "negative");
}

TEST(Validate, DType) {
    Descriptor d;
    d.dl.dtype = {18, 8, 1};
    expect_refused(d, ErrorCode::bad_dtype, "code 18, bits 8, lanes 1");
    d.dl.dtype = {kDLFloat, 32, 0};
    expect_refused(d, ErrorCode::bad_dtype, "lanes 0");
    d.dl.dtype = {kDLFloat, 0, 1};
    expect_refused(d, ErrorCode::bad_dtype, "bits 0");
    d.dl.dtype = {kDLFloat4_e2m1fn, 8, 1};
    expect_refused(d, ErrorCode::bad_dtype, "code 17, bits 8");
}

TEST(Validate, Device) {
    Descriptor d;
    for (int type : {0, -1, 5, 6, 19}) {
        d.dl.device = isthmus::Device(type, 0);
        expect_refused(d, ErrorCode::bad_device, "type " + std::to_string(type));
    }
    d.dl.device = isthmus::Device::cuda(-1);
    expect_refused(d, ErrorCode::bad_device, "id -1");
    for (int type = kDLCPU; type <= kDLTrn; ++type) {
        d.dl.device = isthmus::Device(type, 1);
        EXPECT_EQ(d.sound(), type != 5 && type != 6) << type;
    }
}

TEST(Validate, SizesThatOverflow) {
    Descriptor d;
    d.lie({INT64_MAX, 2}, {2, 1});
    expect_refused(d, ErrorCode::overflow, "more bytes");
    d.lie({INT64_MAX / 2}, {1});
    expect_refused(d, ErrorCode::overflow, "more bytes");
    d.dl.strides = nullptr;
    expect_refused(d, ErrorCode::overflow, "more bytes");
    d.lie({std::int64_t{1} << 40, std::int64_t{1} << 40, 0}, {1, 1, 1});
    expect_refused(d, ErrorCode::overflow, "more bytes");
}

TEST(Validate, NullData) {
    Descriptor d;
    d.dl.data = nullptr;
    expect_refused(d, ErrorCode::null_data, "NULL with 6 elements (shape (2, 3))");
    d.lie({}, {});
    expect_refused(d, ErrorCode::null_data, "1 elements");
    d.dl.byte_offset = 64;
    expect_refused(d, ErrorCode::null_data, "NULL");
    d.dl.byte_offset = 0;
    d.lie({2, 0}, {1, 1});
    EXPECT_TRUE(d.sound()) << "no elements need no memory";
}

TEST(Validate, ByteOffset) {
    Descriptor d;
    d.dl.byte_offset = 64;
    EXPECT_TRUE(d.sound());
    d.dl.byte_offset = UINT64_MAX;
    expect_refused(d, ErrorCode::overflow, "byte_offset 18446744073709551615");
    d.dl.byte_offset = static_cast<std::uint64_t>(INT64_MAX) + 1;
    expect_refused(d, ErrorCode::overflow, "byte_offset");
    d.dl.data = reinterpret_cast<void*>(UINTPTR_MAX - 63);
    d.dl.byte_offset = 64;
    expect_refused(d, ErrorCode::overflow, "leaves the address space");
    d.lie({0}, {1});
    expect_refused(d, ErrorCode::overflow, "leaves the address space");
}

TEST(Validate, StridesThatLeaveTheAddressSpace) {
    Descriptor d;
    d.lie({2}, {INT64_MAX});
    expect_refused(d, ErrorCode::overflow, "strides (9223372036854775807,) of shape (2,) leave the address space");
    d.lie({2}, {INT64_MIN});
    expect_refused(d, ErrorCode::overflow, "leave the address space");
    // -2^63 bytes: the one offset whose magnitude is no int64.
    d.dl.dtype = isthmus::int8;
    d.lie({3}, {INT64_MIN / 2});
    expect_refused(d, ErrorCode::overflow, "leave the address space");
    d.lie({2}, {-(std::int64_t{1} << 50)});
    d.dl.data = reinterpret_cast<void*>(4096);
    expect_refused(d, ErrorCode::overflow, "leave the address space");
    // The last page is never memory.
    d.dl.data = reinterpret_cast<void*>(UINTPTR_MAX - 8191);
    d.lie({2}, {4096});
    expect_refused(d, ErrorCode::overflow, "leave the address space");
    d.lie({2}, {4095});
    EXPECT_TRUE(d.sound()) << "up to the last byte before it";
    d.lie({4097}, {1});
    d.dl.strides = nullptr;
    expect_refused(d, ErrorCode::overflow, "leaves the address space");
}

TEST(Validate, NegativeAndBroadcastStrides) {
    Descriptor d;
    d.dl.data = d.memory + 20;
    d.lie({6}, {-1});
    EXPECT_TRUE(d.sound());
    d.lie({1000000, 6}, {0, 1});
    EXPECT_TRUE(d.sound());
    d.lie({5, 0}, {INT64_MAX, INT64_MIN});
    EXPECT_TRUE(d.sound()) << "strides of nothing are not used";
}

TEST(Validate, Alignment) {
    Descriptor d;
    d.dl.data = d.memory + 2;
    expect_refused(d, ErrorCode::needs_copy, "not aligned to the 4 bytes of float32");
    d.dl.dtype = isthmus::int16;
    EXPECT_TRUE(d.sound());
    d.dl.dtype = isthmus::complex128;
    d.dl.data = d.memory + 8;
    EXPECT_TRUE(d.sound()) << "complex is aligned as its components";
    d.dl.data = d.memory + 4;
    expect_refused(d, ErrorCode::needs_copy, "8 bytes of complex128");
    d.dl.data = d.memory;
    d.dl.byte_offset = 4;
    expect_refused(d, ErrorCode::needs_copy, "8 bytes");
    d.dl.dtype = isthmus::float32;
    d.dl.byte_offset = 1;
    d.lie({0}, {1});
    EXPECT_TRUE(d.sound()) << "no elements, nothing to align";
}

TEST(Validate, PackedSubByteMustBeContiguousAndPaddedNeedNot) {
    Descriptor d;
    d.dl.dtype = isthmus::float4_e2m1fn;
    EXPECT_TRUE(d.sound());
    d.lie({2, 3}, {1, 2});
    expect_refused(d, ErrorCode::bad_layout, "of packed float4_e2m1fn are not row-major");
    d.flags = flag::padded;
    EXPECT_TRUE(d.sound());
    d.flags = 0;
    d.dl.dtype = DType(kDLFloat4_e2m1fn, 4, 2);
    EXPECT_TRUE(d.sound()) << "two lanes fill a byte";
    d.dl.dtype = isthmus::float6_e3m2fn;
    expect_refused(d, ErrorCode::bad_layout, "packed float6_e3m2fn");
    d.dl.device = isthmus::Device::metal();
    expect_refused(d, ErrorCode::bad_layout, "packed float6_e3m2fn");
}

TEST(Validate, AHandleIsNoAddress) {
    Descriptor d;
    d.dl.device = isthmus::Device::metal();
    d.dl.data = reinterpret_cast<void*>(3);
    EXPECT_TRUE(d.sound());
    d.lie({2}, {-1000});
    EXPECT_TRUE(d.sound());
    d.lie({3}, {INT64_MAX});
    expect_refused(d, ErrorCode::overflow, "leave the address space");
    d.dl.data = nullptr;
    expect_refused(d, ErrorCode::null_data, "NULL");
}

// The same rules, written a second time in arithmetic that cannot overflow.
bool sound_by_the_book(const Descriptor& d) {
    __extension__ typedef __int128 Wide;
    const DType dtype = d.dl.dtype;
    Wide numel = 1, nonzero = 1, low = 0, high = 0;
    for (std::int64_t s : d.shape) {
        numel *= s;
        if (s != 0) nonzero *= s;
        if (nonzero > INT64_MAX) return false;
    }
    const bool packed = dtype.is_subbyte() && !(d.flags & flag::padded);
    if (packed ? numel * dtype.element_bits() > INT64_MAX - 7 : numel * dtype.itemsize() > INT64_MAX) return false;
    if (numel == 0) return true;
    for (std::size_t i = 0; i < d.shape.size(); ++i) {
        const Wide reach = Wide{d.strides[i]} * (d.shape[i] - 1);
        (reach < 0 ? low : high) += reach;
        if (reach < INT64_MIN || reach > INT64_MAX || low < INT64_MIN || high > INT64_MAX) return false;
    }
    low *= dtype.itemsize();
    // Packed elements are in a row and share bytes: they reach no farther than their bytes do.
    high = packed ? (numel * dtype.element_bits() + 7) / 8 - 1 : high * dtype.itemsize() + dtype.itemsize() - 1;
    if (low < INT64_MIN || high > INT64_MAX) return false;
    if (packed && !isthmus::layout::is_contiguous(d.shape.data(), d.strides.data(), d.dl.ndim)) return false;
    const Wide address =
        static_cast<Wide>(reinterpret_cast<std::uintptr_t>(d.dl.data)) + static_cast<Wide>(d.dl.byte_offset);
    constexpr Wide last_page = static_cast<Wide>(UINTPTR_MAX) - 4095;
    if (address + low < 0 || address + high >= last_page) return false;
    return address % dtype.alignment() == 0;
}

TEST(Validate, AgreesWithArithmeticThatCannotOverflow) {
    std::mt19937_64 random(20240229);
    const std::int64_t sizes[] = {0, 1, 2, 3, 7, 1 << 20, std::int64_t{1} << 31, std::int64_t{1} << 62, INT64_MAX};
    const std::int64_t steps[] = {0,
                                  1,
                                  -1,
                                  3,
                                  -7,
                                  1 << 20,
                                  std::int64_t{1} << 45,
                                  -(std::int64_t{1} << 45),
                                  INT64_MAX / 2,
                                  INT64_MIN / 2,
                                  INT64_MAX,
                                  INT64_MIN};
    const DType dtypes[] = {isthmus::int8,          isthmus::float32,       isthmus::complex128,
                            isthmus::float4_e2m1fn, isthmus::float6_e2m3fn, DType(kDLFloat, 32, 4)};
    const std::uintptr_t addresses[] = {64,
                                        65,
                                        68,
                                        std::uintptr_t{1} << 46,
                                        UINTPTR_MAX - 8191,
                                        UINTPTR_MAX - 4103,
                                        UINTPTR_MAX - 4095,
                                        UINTPTR_MAX - 7,
                                        UINTPTR_MAX};
    const auto pick = [&](const auto& from) { return from[random() % std::size(from)]; };
    int sound = 0, refused = 0;
    for (int i = 0; i < 200000; ++i) {
        Descriptor d;
        Dims shape(random() % 4), strides(shape.size());
        for (auto& s : shape) s = pick(sizes);
        for (auto& s : strides) s = pick(steps);
        if (random() % 2 == 0)
            (void)isthmus::layout::row_major(shape.data(), static_cast<int>(shape.size()), strides.data());
        d.lie(shape, strides);
        d.dl.dtype = pick(dtypes);
        d.dl.data = reinterpret_cast<void*>(pick(addresses));
        d.flags = random() % 2 ? flag::padded : 0;
        ASSERT_EQ(d.sound(), sound_by_the_book(d))
            << isthmus::layout::to_string(shape) << isthmus::layout::to_string(strides) << DType(d.dl.dtype).name()
            << " at " << d.dl.data;
        d.sound() ? ++sound : ++refused;
        ASSERT_NE(d.sound() ? "" : d.why().what(), nullptr);
    }
    EXPECT_GT(sound, 10000);
    EXPECT_GT(refused, 10000);
}

TEST(Validate, AnErrorWithoutAnArgumentNamesNone) {
    Descriptor d;
    d.dl.ndim = -1;
    EXPECT_EQ(std::string(isthmus::detail::explain_unsound(d.dl, 0, nullptr).what()).rfind("ndim is", 0), 0u);
}

}  // namespace
