// SPDX-License-Identifier: Apache-2.0
#include "src/core/managed_tensor.h"

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <isthmus/isthmus.h>

#include "support/allocations.h"
#include "support/foreign_tensor.h"
#include "support/owners.h"

using isthmus::Device;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_test::CountedOwner;
using isthmus_test::Counts;
using isthmus_test::Legacy;
using isthmus_test::Versioned;
namespace flag = isthmus::flag;

namespace {

using Dims = std::vector<std::int64_t>;
Dims dims(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

template <class Foreign>
class Import : public testing::Test {};
using Layouts = testing::Types<Versioned, Legacy>;
TYPED_TEST_SUITE(Import, Layouts);

TYPED_TEST(Import, SharesTheMemoryAndDeletesOnce) {
    TypeParam foreign;
    {
        auto result = Tensor::from_dlpack(foreign.get());
        ASSERT_TRUE(result) << result.error().what();
        EXPECT_EQ(result->data(), foreign.elements.data());
        EXPECT_EQ(dims(result->shape()), (Dims{2, 3}));
        EXPECT_EQ(dims(result->strides()), (Dims{3, 1}));
        EXPECT_FALSE(result->read_only());
        const Tensor copy = *result;
        EXPECT_EQ(foreign.deleted, 0);
    }
    EXPECT_EQ(foreign.deleted, 1);
}

TYPED_TEST(Import, FoldsTheByteOffsetIn) {
    TypeParam foreign;
    foreign.reshape({2}, {1});
    foreign.dl().byte_offset = 8;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    EXPECT_EQ(t.data(), foreign.elements.data() + 2);
    EXPECT_EQ(t->byte_offset, 0u);
}

TYPED_TEST(Import, LeavesTheOffsetOfAHandleAlone) {
    TypeParam foreign;
    foreign.dl().device = Device(kDLOpenCL, 0);
    foreign.dl().byte_offset = 8;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    EXPECT_EQ(t.data(), foreign.elements.data());
    EXPECT_EQ(t->byte_offset, 8u);
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->dl_tensor.data, foreign.elements.data());
    EXPECT_EQ(managed->dl_tensor.byte_offset, 8u);
    managed->deleter(managed);
}

TYPED_TEST(Import, WritesOutMissingStrides) {
    TypeParam foreign;
    foreign.dl().strides = nullptr;
    EXPECT_EQ(dims(Tensor::from_dlpack(foreign.get()).value().strides()), (Dims{3, 1}));
}

TYPED_TEST(Import, DoesNotNeedTheProducersDescriptorAnyMore) {
    TypeParam foreign;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    foreign.shape = {-9, -9};
    foreign.strides = {-9, -9};
    foreign.dl().data = nullptr;
    EXPECT_EQ(dims(t.shape()), (Dims{2, 3}));
    EXPECT_EQ(dims(t.strides()), (Dims{3, 1}));
    EXPECT_EQ(t.data(), foreign.elements.data());
}

TYPED_TEST(Import, NullIsRefused) {
    decltype(std::declval<TypeParam&>().get()) none = nullptr;
    EXPECT_EQ(Tensor::from_dlpack(none).error().code(), ErrorCode::bad_capsule);
}

TYPED_TEST(Import, WithoutADeleterNothingIsCalled) {
    TypeParam foreign;
    foreign.managed.deleter = nullptr;
    {
        const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    }
    foreign.dl().ndim = -1;
    EXPECT_FALSE(Tensor::from_dlpack(foreign.get()));
}

TYPED_TEST(Import, ADeleterThatThrowsIsSurvived) {
    TypeParam foreign;
    foreign.managed.deleter = [](auto* self) {
        static_cast<TypeParam*>(self->manager_ctx)->deleted++;
        throw std::runtime_error("no");
    };
    {
        const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    }
    EXPECT_EQ(foreign.deleted, 1);
    foreign.dl().ndim = -1;
    EXPECT_FALSE(Tensor::from_dlpack(foreign.get()));
    EXPECT_EQ(foreign.deleted, 2);
}

// A refused tensor is still a taken one: its deleter runs, once, and the error is the right one.
TYPED_TEST(Import, WhatIsNotSoundIsDeletedOnceAndRefused) {
    const struct {
        void (*spoil)(TypeParam&);
        ErrorCode code;
    } faults[] = {
        {[](TypeParam& f) { f.dl().ndim = -1; }, ErrorCode::bad_layout},
        {[](TypeParam& f) { f.dl().ndim = 65; }, ErrorCode::bad_layout},
        {[](TypeParam& f) { f.dl().shape = nullptr; }, ErrorCode::bad_layout},
        {[](TypeParam& f) { f.shape[1] = -3; }, ErrorCode::bad_layout},
        {[](TypeParam& f) { f.dl().dtype.code = 18; }, ErrorCode::bad_dtype},
        {[](TypeParam& f) { f.dl().dtype.lanes = 0; }, ErrorCode::bad_dtype},
        {[](TypeParam& f) { f.dl().device = Device(6, 0); }, ErrorCode::bad_device},
        {[](TypeParam& f) { f.dl().data = nullptr; }, ErrorCode::null_data},
        {[](TypeParam& f) { f.shape[0] = INT64_MAX; }, ErrorCode::overflow},
        {[](TypeParam& f) { f.strides[0] = INT64_MAX; }, ErrorCode::overflow},
        {[](TypeParam& f) { f.dl().byte_offset = UINT64_MAX; }, ErrorCode::overflow},
        {[](TypeParam& f) { f.dl().byte_offset = 1; }, ErrorCode::needs_copy},
        {[](TypeParam& f) { f.dl().dtype = isthmus::float4_e2m1fn, f.strides = {1, 2}; }, ErrorCode::bad_layout},
    };
    for (const auto& fault : faults) {
        TypeParam foreign;
        fault.spoil(foreign);
        const auto result = Tensor::from_dlpack(foreign.get());
        ASSERT_FALSE(result) << isthmus::error_code_name(fault.code);
        EXPECT_STREQ(isthmus::error_code_name(result.error().code()), isthmus::error_code_name(fault.code))
            << result.error().what();
        EXPECT_EQ(foreign.deleted, 1) << result.error().what();
    }
}

TYPED_TEST(Import, WithoutMemoryTheTensorIsDeletedOnce) {
    TypeParam foreign;
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(Tensor::from_dlpack(foreign.get()).error().code(), ErrorCode::out_of_memory);
    EXPECT_EQ(foreign.deleted, 1);
}

TYPED_TEST(Import, TheProducersOwnerMayDieOnAnotherThread) {
    TypeParam foreign;
    std::thread([t = Tensor::from_dlpack(foreign.get()).value()] { EXPECT_EQ(t.numel(), 6); }).join();
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(ImportVersioned, Flags) {
    Versioned foreign;
    foreign.managed.flags = flag::read_only | flag::copied;
    {
        const Tensor t = Tensor::from_dlpack(foreign.get()).value();
        EXPECT_TRUE(t.read_only());
        EXPECT_FALSE(t.is_padded());
    }
    foreign.managed.flags = 1u << 7;
    EXPECT_EQ(Tensor::from_dlpack(foreign.get()).error().code(), ErrorCode::unsupported_version);
    EXPECT_EQ(foreign.deleted, 2);
}

TEST(ImportVersioned, AnyMinorVersionIsRead) {
    for (std::uint32_t minor : {0u, 1u, 3u, 99u}) {
        Versioned foreign;
        foreign.managed.version.minor = minor;
        EXPECT_TRUE(Tensor::from_dlpack(foreign.get())) << minor;
        EXPECT_EQ(foreign.deleted, 1);
    }
}

#if !defined(_WIN32)
int poisoned_deletions = 0;

// Of another major version only the version, the context and the deleter may be read: the rest lies on a page that
// cannot be.
TEST(ImportVersioned, AnotherMajorVersionIsDeletedUnread) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto* pages =
        static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    ASSERT_EQ(mprotect(pages + page, page, PROT_NONE), 0);
    auto* managed =
        reinterpret_cast<DLManagedTensorVersioned*>(pages + page - offsetof(DLManagedTensorVersioned, flags));
    poisoned_deletions = 0;
    void (*const deleter)(DLManagedTensorVersioned*) = [](DLManagedTensorVersioned*) { ++poisoned_deletions; };
    std::memcpy(reinterpret_cast<char*>(managed) + offsetof(DLManagedTensorVersioned, deleter), &deleter,
                sizeof deleter);
    int expected = 0;
    for (DLPackVersion version : {DLPackVersion{2, 0}, DLPackVersion{0, 8}, DLPackVersion{UINT32_MAX, 0}}) {
        std::memcpy(reinterpret_cast<char*>(managed), &version, sizeof version);
        const auto result = Tensor::from_dlpack(managed);
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code(), ErrorCode::unsupported_version);
        EXPECT_NE(std::string(result.error().what()).find("expected major version 1"), std::string::npos)
            << result.error().what();
        EXPECT_EQ(poisoned_deletions, ++expected);
    }
    munmap(pages, 2 * page);
}
#endif

TEST(Export, DescribesTheTensor) {
    const Tensor t = Tensor::own(std::vector<float>(6), {2, 3});
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->version.major, 1u);
    EXPECT_EQ(managed->version.minor, 3u);
    EXPECT_EQ(managed->flags, 0u);
    EXPECT_NE(managed->manager_ctx, nullptr);
    EXPECT_EQ(managed->dl_tensor.data, t.data());
    EXPECT_EQ(managed->dl_tensor.byte_offset, 0u);
    EXPECT_EQ(managed->dl_tensor.ndim, 2);
    EXPECT_EQ(dims({managed->dl_tensor.shape, 2}), (Dims{2, 3}));
    EXPECT_EQ(dims({managed->dl_tensor.strides, 2}), (Dims{3, 1}));
    managed->deleter(managed);
}

TEST(Export, AConsumerThatWritesToTheSizesSpoilsItsOwnOnly) {
    const Tensor t = Tensor::own(std::vector<float>(6), {2, 3});
    auto *first = t.to_dlpack(), *second = t.to_dlpack();
    first->dl_tensor.shape[0] = first->dl_tensor.strides[1] = 77;
    EXPECT_EQ(dims(t.shape()), (Dims{2, 3}));
    EXPECT_EQ(second->dl_tensor.shape[0], 2);
    EXPECT_EQ(second->dl_tensor.strides[1], 1);
    first->deleter(first);
    second->deleter(second);
}

TEST(Export, NoDimensions) {
    const Tensor t = Tensor::own(std::vector<float>(1), {});
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->dl_tensor.ndim, 0);
    const Tensor back = Tensor::from_dlpack(managed).value();
    EXPECT_EQ(back.numel(), 1);
}

TEST(Export, ReadOnlyIsSaidWhereItCanBe) {
    const Tensor t = Tensor::empty({2}, isthmus::float32).as_read_only();
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->flags, flag::read_only);
    EXPECT_TRUE(Tensor::from_dlpack(managed).value().read_only());
    EXPECT_EQ(t.to_dlpack_legacy(), nullptr);
    auto* legacy = Tensor::empty({2}, isthmus::float32).to_dlpack_legacy();
    ASSERT_NE(legacy, nullptr);
    legacy->deleter(legacy);
}

TEST(Export, PaddedElementsAreSaidWhereTheyCanBe) {
    Versioned foreign;
    foreign.dl().dtype = isthmus::float4_e2m1fn;
    foreign.managed.flags = flag::padded;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    EXPECT_TRUE(t.is_padded());
    EXPECT_EQ(t.nbytes(), 6);
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->flags, flag::padded);
    managed->deleter(managed);
    EXPECT_EQ(t.to_dlpack_legacy(), nullptr) << "the old layout would show the elements as packed";
    EXPECT_TRUE(t.as_read_only().is_padded());
    EXPECT_TRUE(t.as_strided(t.data(), {3, 2}, {1, 3}, t.dtype()).is_padded()) << "padded elements may lie anywhere";
}

// The promise that nobody else holds the memory is the producer's to make, for the one tensor that it hands out.
TEST(Export, IsCopiedIsNotPassedOn) {
    Versioned foreign;
    foreign.managed.flags = flag::copied;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    auto* managed = t.to_dlpack();
    EXPECT_EQ(managed->flags & flag::copied, 0u);
    managed->deleter(managed);
}

template <class Managed>
Managed* export_as(const Tensor& t) {
    if constexpr (std::is_same_v<Managed, DLManagedTensor>)
        return t.to_dlpack_legacy();
    else
        return t.to_dlpack();
}

template <class Managed>
class RoundTrip : public testing::Test {};
using Managed = testing::Types<DLManagedTensorVersioned, DLManagedTensor>;
TYPED_TEST_SUITE(RoundTrip, Managed);

TYPED_TEST(RoundTrip, TheOwnerOutlivesTheFirstToGo) {
    for (bool handle_first : {true, false}) {
        Counts counts;
        float memory[6] = {1, 2, 3, 4, 5, 6};
        Tensor t = Tensor::wrap(memory, {2, 3}, {1, 2}, isthmus::float32, Device::cpu(), CountedOwner(counts));
        Tensor back = Tensor::from_dlpack(export_as<TypeParam>(t)).value();
        EXPECT_EQ(back.data(), memory);
        EXPECT_EQ(dims(back.strides()), (Dims{1, 2}));
        (handle_first ? t : back) = Tensor();
        EXPECT_EQ(counts.destroyed, 0);
        const Tensor& rest = handle_first ? back : t;
        EXPECT_EQ((rest.view<float, 2>().value()(1, 2)), 6);
        (handle_first ? back : t) = Tensor();
        EXPECT_EQ(counts.called, 1);
        EXPECT_EQ(counts.destroyed, 1);
    }
}

TYPED_TEST(RoundTrip, ManyTimesOver) {
    Counts counts;
    float memory[1] = {42};
    {
        Tensor t = Tensor::wrap(memory, {}, {}, isthmus::float32, Device::cpu(), CountedOwner(counts));
        for (int i = 0; i < 1000; ++i) t = Tensor::from_dlpack(export_as<TypeParam>(t)).value();
        EXPECT_EQ(t.data(), memory);
        EXPECT_EQ(counts.destroyed, 0);
    }
    EXPECT_EQ(counts.destroyed, 1);
}

TYPED_TEST(RoundTrip, EveryDTypeAndDevice) {
    alignas(64) char memory[64] = {};
    int count = 0;
    for (int code = kDLInt; code <= kDLFloat4_e2m1fn; ++code)
        for (int bits : {1, 2, 4, 6, 8, 16, 32, 64, 128})
            for (int device = kDLCPU; device <= kDLTrn; ++device) {
                const isthmus::DType dtype{code, bits};
                if (!dtype.is_valid() || !Device(device, 3).is_valid()) continue;
                const Tensor t = Tensor::wrap(memory, {2}, {}, dtype, Device(device, 3), nullptr);
                const Tensor back = Tensor::from_dlpack(export_as<TypeParam>(t)).value();
                EXPECT_EQ(back.dtype(), dtype);
                EXPECT_EQ(back.device(), Device(device, 3));
                EXPECT_EQ(back.data(), memory);
                ++count;
            }
    EXPECT_GT(count, 16 * 30);
}

TYPED_TEST(RoundTrip, WithoutMemoryNothingIsHeld) {
    const Tensor t = Tensor::own(std::vector<float>(1));
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(export_as<TypeParam>(t), nullptr);
    EXPECT_EQ(t.use_count(), 1u);
}

}  // namespace
