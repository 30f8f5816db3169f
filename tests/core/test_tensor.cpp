// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/tensor.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <isthmus/isthmus.h>

#include "support/allocations.h"

using isthmus::Device;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_test::Allocations;

namespace {

using Dims = std::vector<std::int64_t>;
Dims dims(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

template <class F>
ErrorCode code_of(F&& f) {
    try {
        (void)f();
    } catch (const Error& e) {
        EXPECT_EQ(e.kind() == isthmus::ErrorKind::type, false) << e.what();
        return e.code();
    }
    return ErrorCode{};
}

TEST(Tensor, IsOnePointerWideAndEmptyByDefault) {
    static_assert(sizeof(Tensor) == sizeof(void*));
    static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_copy_constructible_v<Tensor>);
    Tensor none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.use_count(), 0u);
    Tensor copy = none;
    none = copy;
    EXPECT_FALSE(none);
}

TEST(Tensor, SaysWhatItWasGiven) {
    alignas(8) float memory[24] = {};
    const Tensor t = Tensor::wrap(memory, {2, 3, 4}, {}, isthmus::float32, Device::cpu(), nullptr);
    EXPECT_EQ(t.data(), memory);
    EXPECT_EQ(dims(t.shape()), (Dims{2, 3, 4}));
    EXPECT_EQ(dims(t.strides()), (Dims{12, 4, 1}));
    EXPECT_EQ(t.ndim(), 3);
    EXPECT_EQ(t.numel(), 24);
    EXPECT_EQ(t.itemsize(), 4);
    EXPECT_EQ(t.nbytes(), 96);
    EXPECT_EQ(t.dtype(), isthmus::float32);
    EXPECT_EQ(t.device(), Device::cpu());
    EXPECT_FALSE(t.read_only());
    EXPECT_TRUE(t.is_contiguous());
    EXPECT_EQ(t->data, memory);
    EXPECT_EQ(t->byte_offset, 0u);
}

TEST(Tensor, NoDimensionsAndNoElements) {
    double value = 3;
    const Tensor scalar = Tensor::wrap(&value, {}, {}, isthmus::float64, Device::cpu(), nullptr);
    EXPECT_EQ(scalar.ndim(), 0);
    EXPECT_EQ(scalar.numel(), 1);
    EXPECT_TRUE(scalar.shape().empty());
    const Tensor nothing =
        Tensor::wrap(static_cast<void*>(nullptr), {3, 0, 2}, {}, isthmus::float64, Device::cpu(), nullptr);
    EXPECT_EQ(nothing.numel(), 0);
    EXPECT_EQ(nothing.nbytes(), 0);
    EXPECT_EQ(nothing.data(), nullptr);
    EXPECT_TRUE(nothing.is_contiguous());
}

TEST(Tensor, StridesOfEveryKind) {
    float memory[24] = {};
    const auto wrap = [&](isthmus::Shape shape, isthmus::Shape strides, float* at) {
        return Tensor::wrap(at, shape, strides, isthmus::float32, Device::cpu(), nullptr);
    };
    EXPECT_FALSE(wrap({4, 6}, {1, 4}, memory).is_contiguous());
    EXPECT_FALSE(wrap({4}, {-6}, memory + 18).is_contiguous());
    EXPECT_FALSE(wrap({5, 4}, {0, 1}, memory).is_contiguous());
    EXPECT_TRUE(wrap({1, 24}, {77, 1}, memory).is_contiguous());
    EXPECT_EQ(wrap({5, 4}, {0, 1}, memory).nbytes(), 80) << "of all elements when compact";
}

TEST(Tensor, SubByteSizesArePacked) {
    unsigned char memory[8] = {};
    const Tensor t = Tensor::wrap(memory, {3, 5}, {}, isthmus::float4_e2m1fn, Device::cpu(), nullptr);
    EXPECT_EQ(t.itemsize(), 1);
    EXPECT_EQ(t.nbytes(), 8);
    EXPECT_FALSE(t.is_padded());
}

TEST(Tensor, ConstMemoryIsReadOnly) {
    const float memory[2] = {};
    EXPECT_TRUE(Tensor::wrap(memory, {2}, {}, isthmus::float32, Device::cpu(), nullptr).read_only());
}

TEST(Tensor, WrapRefusesWhatIsNotSound) {
    alignas(8) float memory[8] = {};
    const auto code = [&](void* data, isthmus::Shape shape, isthmus::Shape strides,
                          isthmus::DType dtype = isthmus::float32, Device device = {}) {
        return code_of([&] { return Tensor::wrap(data, shape, strides, dtype, device, nullptr); });
    };
    EXPECT_EQ(code(nullptr, {2}, {}), ErrorCode::null_data);
    EXPECT_EQ(code(memory, {-2}, {}), ErrorCode::bad_layout);
    EXPECT_EQ(code(memory, {2, 2}, {1}), ErrorCode::bad_layout);
    EXPECT_EQ(code(memory, Dims(65, 1), {}), ErrorCode::bad_layout);
    EXPECT_EQ(code(memory, {2}, Dims(65, 1)), ErrorCode::bad_layout);
    EXPECT_EQ(code(memory, {2}, {}, isthmus::DType(kDLFloat, 31)), ErrorCode::bad_dtype);
    EXPECT_EQ(code(memory, {2}, {}, isthmus::float32, Device(6, 0)), ErrorCode::bad_device);
    EXPECT_EQ(code(memory, {INT64_MAX, 4}, {}), ErrorCode::overflow);
    EXPECT_EQ(code(memory, {2}, {INT64_MAX}), ErrorCode::overflow);
    EXPECT_EQ(code(reinterpret_cast<char*>(memory) + 1, {2}, {}), ErrorCode::needs_copy);
}

TEST(Tensor, ShapesFromRangesOfAnyInteger) {
    float memory[6] = {};
    const std::vector<int> ints{2, 3};
    const std::array<std::size_t, 1> sizes{6};
    const Dims longs{3, 2};
    const std::int64_t n = 6;
    EXPECT_EQ(dims(Tensor::wrap(memory, ints, {}, isthmus::float32, {}, nullptr).shape()), (Dims{2, 3}));
    EXPECT_EQ(dims(Tensor::wrap(memory, sizes, {}, isthmus::float32, {}, nullptr).shape()), Dims{6});
    EXPECT_EQ(dims(Tensor::wrap(memory, longs, {}, isthmus::float32, {}, nullptr).shape()), (Dims{3, 2}));
    EXPECT_EQ(dims(Tensor::wrap(memory, {1, n}, {}, isthmus::float32, {}, nullptr).shape()), (Dims{1, 6}));
    EXPECT_EQ(dims(Tensor::wrap(memory, {std::uint8_t{6}}, {}, isthmus::float32, {}, nullptr).shape()), Dims{6});
}

TEST(Tensor, UpToMaxNdim) {
    float value = 1;
    for (std::size_t ndim : {8u, 9u, 64u}) {
        const Dims shape(ndim, 1), strides(ndim, 5);
        const Tensor t = Tensor::wrap(&value, shape, strides, isthmus::float32, Device::cpu(), std::vector<int>(100));
        EXPECT_EQ(dims(t.shape()), shape);
        EXPECT_EQ(dims(t.strides()), strides);
    }
}

TEST(Tensor, AHandleKeepsItsOffset) {
    float memory[4] = {};
    const Tensor t = Tensor::wrap_spec(
        [&] {
            isthmus::TensorSpec spec(static_cast<void*>(memory), isthmus::float32, {2});
            spec.byte_offset = 8;
            spec.device = Device::metal();
            return spec;
        },
        nullptr);
    EXPECT_EQ(t.data(), memory);
    EXPECT_EQ(t->byte_offset, 8u);
    EXPECT_EQ(t.as_read_only()->byte_offset, 8u);
    EXPECT_EQ(t.as_strided(t.data(), {1}, {}, isthmus::float32)->byte_offset, 8u);
}

TEST(Tensor, EmptyIsAlignedRowMajorAndWritable) {
    for (std::size_t alignment : {64u, 256u, 4096u}) {
        const Tensor t = Tensor::empty({3, 5}, isthmus::complex64, alignment);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % alignment, 0u);
        EXPECT_EQ(dims(t.strides()), (Dims{5, 1}));
        EXPECT_FALSE(t.read_only());
        std::memset(t.data(), 0xab, static_cast<std::size_t>(t.nbytes()));
        EXPECT_EQ(dims(t.shape()), (Dims{3, 5})) << "the elements lie behind the sizes";
    }
    EXPECT_EQ(Tensor::empty({}, isthmus::int8).nbytes(), 1);
    EXPECT_EQ(Tensor::empty({0, 7}, isthmus::int8).nbytes(), 0);
    EXPECT_NE(Tensor::empty({0}, isthmus::int8).data(), nullptr);
    EXPECT_EQ(Tensor::empty(Dims(64, 1), isthmus::float64).ndim(), 64);
    EXPECT_EQ(Tensor::empty({3}, isthmus::float4_e2m1fn).nbytes(), 2);
}

TEST(Tensor, EmptyRefusesWhatIsNotSound) {
    EXPECT_EQ(code_of([] { return Tensor::empty({-1}, isthmus::int8); }), ErrorCode::bad_layout);
    EXPECT_EQ(code_of([] { return Tensor::empty(Dims(65, 1), isthmus::int8); }), ErrorCode::bad_layout);
    EXPECT_EQ(code_of([] { return Tensor::empty({INT64_MAX, 2}, isthmus::int8); }), ErrorCode::overflow);
    EXPECT_EQ(code_of([] { return Tensor::empty({INT64_MAX}, isthmus::int8); }), ErrorCode::overflow);
    EXPECT_EQ(code_of([] { return Tensor::empty({INT64_MAX / 4}, isthmus::float32); }), ErrorCode::overflow);
    EXPECT_EQ(code_of([] { return Tensor::empty({1}, isthmus::DType(99, 8)); }), ErrorCode::bad_dtype);
    for (std::size_t alignment :
         {std::size_t{0}, std::size_t{32}, std::size_t{65}, std::size_t{1} << 62, std::size_t{1} << 63})
        EXPECT_EQ(code_of([&] { return Tensor::empty({1}, isthmus::int8, alignment); }), ErrorCode::bad_argument)
            << alignment;
}

TEST(Tensor, EmptyThatDoesNotFitIsOutOfMemory) {
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(code_of([] { return Tensor::empty({4}, isthmus::int8); }), ErrorCode::out_of_memory);
}

TEST(Tensor, AViewWithoutMemoryLeavesTheTensorAsItWas) {
    const Tensor t = Tensor::empty({2, 3}, isthmus::float32);
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(code_of([&] { return t.as_read_only(); }), ErrorCode::out_of_memory);
    EXPECT_EQ(t.use_count(), 1U);
    EXPECT_FALSE(t.read_only());
}

TEST(Tensor, AsReadOnlySharesTheMemory) {
    Tensor t = Tensor::empty({2, 3}, isthmus::float32);
    const void* data = t.data();
    Tensor r = t.as_read_only();
    EXPECT_TRUE(r.read_only());
    EXPECT_FALSE(t.read_only());
    EXPECT_EQ(r.data(), data);
    EXPECT_EQ(dims(r.shape()), (Dims{2, 3}));
    t = Tensor();
    EXPECT_FALSE((r.view<float, 2>()));
    EXPECT_TRUE((r.view<const float, 2>()));
    const Tensor again = r.as_read_only();
    EXPECT_EQ(again.block(), r.block()) << "nothing to change, nothing to allocate";
}

TEST(Tensor, AsStridedSharesTheOwnerAndKeepsTheFlags) {
    Tensor t = Tensor::own(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
    Tensor column = t.as_strided(static_cast<float*>(t.data()) + 1, {2}, {3}, isthmus::float32);
    Tensor locked = t.as_read_only().as_strided(t.data(), {6}, {}, isthmus::float32);
    t = Tensor();
    const auto view = column.view<float, 1>().value();
    EXPECT_EQ(view(0), 1);
    EXPECT_EQ(view(1), 4);
    EXPECT_TRUE(locked.read_only());
    EXPECT_EQ(code_of([&] { return column.as_strided(column.data(), {-1}, {}, isthmus::float32); }),
              ErrorCode::bad_layout);
    EXPECT_EQ(column.use_count(), 1u);
}

// The promise of the cheap exchange: one allocation for each handle made.
TEST(Tensor, AnotherDescriptionIsOnTheSameStream) {
    std::vector<float> memory(6);
    Tensor t = Tensor::wrap(memory.data(), {2, 3}, {}, isthmus::float32, Device::cuda(), [] {});
    EXPECT_EQ(t.stream(), isthmus::no_stream);
    EXPECT_EQ(t.as_read_only().stream(), isthmus::no_stream);
    t.set_stream(2);
    EXPECT_EQ(t.stream(), 2);
    const Tensor read_only = t.as_read_only(), flat = read_only.as_strided(t.data(), {6}, {}, isthmus::float32);
    EXPECT_EQ(read_only.stream(), 2);
    EXPECT_EQ(flat.stream(), 2);
    t.set_stream(1);
    EXPECT_EQ(t.stream(), 1);
    EXPECT_EQ(flat.stream(), 2);  // each handle says for itself where work was put through it
}

TEST(Tensor, OneAllocationEach) {
    if (!isthmus_test::counts_allocations()) GTEST_SKIP() << "allocations are not seen with this C library";
    float memory[6] = {};
    std::vector<float> elements(6);
    {
        const Allocations a;
        const Tensor t = Tensor::wrap(memory, {2, 3}, {}, isthmus::float32, Device::cpu(), std::vector<float>());
        EXPECT_EQ(a.count(), 1u) << "wrap";
    }
    {
        const Allocations a;
        const Tensor t = Tensor::own(std::move(elements), {2, 3});
        EXPECT_EQ(a.count(), 1u) << "own";
    }
    {
        const Allocations a;
        const Tensor t = Tensor::empty({2, 3}, isthmus::float32);
        EXPECT_EQ(a.count(), 1u) << "empty";
        const Allocations b;
        const Tensor copy = t;
        Tensor moved = copy;
        const Tensor last = std::move(moved);
        EXPECT_TRUE((last.view<float, 2>()));
        EXPECT_EQ(b.count(), 0u) << "copy, move, view";
        const Allocations c;
        const Tensor read_only = t.as_read_only();
        EXPECT_EQ(c.count(), 1u) << "as_read_only";
        const Allocations d;
        auto* managed = t.to_dlpack();
        EXPECT_EQ(d.count(), 1u) << "to_dlpack";
        const Allocations e;
        const Tensor back = Tensor::from_dlpack(managed).value();
        EXPECT_EQ(e.count(), 1u) << "from_dlpack";
    }
}

TEST(Tensor, TheSizesOfATemporaryMayBeWalkedThrough) {
    const auto make = [] { return Tensor::empty({2, 3, 4}, isthmus::float32); };
    std::int64_t product = 1, sum = 0;
    for (const std::int64_t size : make().shape()) product *= size;
    for (const std::int64_t stride : make().strides()) sum += stride;
    EXPECT_EQ(product, 24);
    EXPECT_EQ(sum, 12 + 4 + 1);
}

#if defined(__linux__)
/// Whether the mapping that holds `address` asks for huge pages (/proc/self/smaps, proc(5)); nothing where the system
/// does not tell.
std::optional<bool> wants_huge_pages(const void* address) {
    std::ifstream maps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t begin = 0, end = 0;
        char dash = 0;
        std::istringstream words(line);
        if (words >> std::hex >> begin >> dash >> end && dash == '-') {
            const auto at = reinterpret_cast<std::uintptr_t>(address);
            inside = begin <= at && at < end;
        }
        if (inside && line.rfind("VmFlags:", 0) == 0) return line.find(" hg") != std::string::npos;
    }
    return std::nullopt;
}

/// Whether smaps shows a wish that certainly was made; an emulator's does not.
bool shows_huge_pages() {
    constexpr std::size_t size = std::size_t{8} << 20;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    const bool shown = madvise(memory, size, MADV_HUGEPAGE) == 0 && wants_huge_pages(memory).value_or(false);
    munmap(memory, size);
    return shown;
}

TEST(Tensor, OwnsArraysOfNumbersAsOneDimensionMore) {
    std::vector<std::array<float, 3>> points{{1, 2, 3}, {4, 5, 6}};
    const void* data = points.data();
    Tensor t = Tensor::own(std::move(points));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(t.dtype(), isthmus::float32);
    EXPECT_EQ(isthmus::layout::to_string(t.shape()), "(2, 3)");
    auto elements = t.view<const float, 2>();
    ASSERT_TRUE(elements);
    EXPECT_EQ((*elements)(1, 2), 6);

    t = Tensor::own(std::vector<std::array<std::array<double, 2>, 3>>(4));
    EXPECT_EQ(isthmus::layout::to_string(t.shape()), "(4, 3, 2)");
    t = Tensor::own(std::array<std::array<std::int32_t, 5>, 2>{});
    EXPECT_EQ(isthmus::layout::to_string(t.shape()), "(2, 5)");
    t = Tensor::own(std::vector<std::array<float, 3>>{});
    EXPECT_EQ(isthmus::layout::to_string(t.shape()), "(0, 3)");
    t = Tensor::own(std::vector<std::array<float, 3>>(6), {2, 3, 3});
    EXPECT_EQ(isthmus::layout::to_string(t.shape()), "(2, 3, 3)");
    EXPECT_EQ(code_of([] { return Tensor::own(std::vector<std::array<float, 3>>(6), {6}); }), ErrorCode::bad_layout);
}

TEST(Tensor, OwnsBytes) {
    const Tensor t = Tensor::own(std::vector<std::byte>(5, std::byte{7}));
    EXPECT_EQ(t.dtype(), isthmus::uint8);
    auto bytes = t.view<const std::byte, 1>();
    ASSERT_TRUE(bytes);
    EXPECT_EQ((*bytes)(4), std::byte{7});
}

TEST(Tensor, ExtentOfADimension) {
    const Tensor t = Tensor::empty({2, 3}, isthmus::float32);
    EXPECT_EQ(t.extent(0), 2);
    EXPECT_EQ(t.extent(1), 3);
    EXPECT_EQ(t.extent(-1), 3);
    EXPECT_EQ(t.extent(-2), 2);
    for (const int d : {2, -3, INT_MAX, INT_MIN}) EXPECT_THROW((void)t.extent(d), isthmus::Error) << d;
    EXPECT_THROW((void)Tensor::empty({}, isthmus::int8).extent(0), isthmus::Error);
}

TEST(Tensor, IsExportedWhileAnythingElseKeepsTheMemory) {
    EXPECT_FALSE(Tensor().is_exported());
    Tensor t = Tensor::own(std::vector<float>(6), {2, 3});
    EXPECT_FALSE(t.is_exported());
    Tensor copy = t;
    EXPECT_TRUE(t.is_exported());
    copy = {};
    EXPECT_FALSE(t.is_exported());

    Tensor row = t.select(0, 1);
    EXPECT_TRUE(t.is_exported());
    EXPECT_TRUE(row.is_exported()) << "the whole is still there";
    Tensor corner = row.slice(0, 0, 1);
    row = {};
    EXPECT_TRUE(t.is_exported());
    t = {};
    EXPECT_FALSE(corner.is_exported());
    Tensor other = corner.reshape({1, 1});
    EXPECT_TRUE(corner.is_exported()) << "by a part of the same whole";
    other = {};

    DLManagedTensorVersioned* managed = corner.to_dlpack();
    ASSERT_NE(managed, nullptr);
    EXPECT_TRUE(corner.is_exported());
    managed->deleter(managed);
    EXPECT_FALSE(corner.is_exported());
}

TEST(Tensor, LargeNewMemoryAsksForHugePages) {
    if (!shows_huge_pages()) GTEST_SKIP() << "no huge pages here";
    const auto middle = [](const Tensor& t) { return static_cast<const char*>(t.data()) + t.nbytes() / 2; };
    // malloc may have pages for which another test's tensor has asked: they are used up first.
    std::vector<Tensor> small;
    do small.push_back(Tensor::empty({std::int64_t{1} << 20}, isthmus::uint8));
    while (wants_huge_pages(middle(small.back())) == true && small.size() < 1000);
    EXPECT_EQ(wants_huge_pages(middle(small.back())), false);
    const Tensor large = Tensor::empty({std::int64_t{64} << 20}, isthmus::uint8);
    EXPECT_EQ(wants_huge_pages(middle(large)), true);
}
#endif

}  // namespace
