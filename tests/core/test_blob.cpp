// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/blob.h>

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/foreign_tensor.h"
#include "support/owners.h"

using isthmus::Blob;
using isthmus::Device;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_test::CountedOwner;
using isthmus_test::Counts;

namespace {

using Dims = std::vector<std::int64_t>;
float memory[6] = {0, 1, 2, 3, 4, 5};

Blob sound_blob() {
    Blob blob;
    blob.ptr = memory;
    blob.shape = {2, 3};
    blob.dtype = isthmus::float32;
    return blob;
}

TEST(Blob, DescribesATensorAndHoldsItsOwner) {
    Counts counts;
    Tensor t = Tensor::wrap(memory, {3, 2}, {1, 3}, isthmus::float32, Device::cpu(), CountedOwner(counts));
    Blob blob = isthmus::to_blob(t);
    EXPECT_EQ(blob.ptr, memory);
    EXPECT_EQ(blob.shape, (Dims{3, 2}));
    EXPECT_EQ(blob.strides, (Dims{1, 3}));
    EXPECT_EQ(blob.dtype, isthmus::float32);
    EXPECT_EQ(blob.device, Device::cpu());
    EXPECT_EQ(blob.element_size, 4);
    EXPECT_FALSE(blob.read_only);
    t = Tensor();
    EXPECT_EQ(counts.destroyed, 0);
    Tensor back = isthmus::from_blob(blob).value();
    blob = Blob();
    EXPECT_EQ(counts.destroyed, 0) << "the tensor made from it holds the owner too";
    EXPECT_EQ((back.view<float, 2>().value()(1, 1)), 4);
    back = Tensor();
    EXPECT_EQ(counts.called, 1);
    EXPECT_EQ(counts.destroyed, 1);
}

TEST(Blob, StridesAndElementSizeAreOptional) {
    const Tensor t = isthmus::from_blob(sound_blob()).value();
    EXPECT_EQ(t.data(), memory);
    EXPECT_EQ(Dims(t.strides().begin(), t.strides().end()), (Dims{3, 1}));
    EXPECT_FALSE(t.read_only());
}

TEST(Blob, KeepsWhatTheFlagsSay) {
    Blob blob = sound_blob();
    blob.read_only = true;
    const Tensor t = isthmus::from_blob(blob).value();
    EXPECT_TRUE(t.read_only());
    EXPECT_TRUE(isthmus::to_blob(t).read_only);
    blob.dtype = isthmus::float4_e2m1fn;
    blob.padded = true;
    blob.strides = {1, 2};
    const Tensor padded = isthmus::from_blob(blob).value();
    EXPECT_TRUE(padded.is_padded());
    EXPECT_TRUE(isthmus::to_blob(padded).padded);
}

TEST(Blob, TravelsWithItsDevice) {
    Blob blob = sound_blob();
    blob.device = Device::cuda(1);
    const Tensor t = isthmus::from_blob(blob).value();
    EXPECT_EQ(isthmus::to_blob(t).device, Device::cuda(1));
    EXPECT_EQ((t.view<const float, 2>().error().code()), ErrorCode::bad_device);
}

// A pointer and nothing else cannot say "8 bytes into this handle".
TEST(Blob, AnOffsetFromAHandleIsRefused) {
    isthmus_test::Versioned foreign;
    foreign.dl().device = Device::metal();
    foreign.dl().byte_offset = 8;
    const Tensor t = Tensor::from_dlpack(foreign.get()).value();
    try {
        (void)isthmus::to_blob(t);
        FAIL();
    } catch (const isthmus::Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_device);
        EXPECT_NE(std::string(e.what()).find("8 bytes into a handle of metal:0"), std::string::npos) << e.what();
    }
}

TEST(Blob, EachWayToBeWrongHasItsError) {
    const struct {
        std::function<void(Blob&)> spoil;
        ErrorCode code;
        const char* words;
    } faults[] = {
        {[](Blob& b) { b.ptr = nullptr; }, ErrorCode::null_data, "NULL with 6 elements"},
        {[](Blob& b) { b.shape = {2, -3}; }, ErrorCode::bad_layout, "negative size"},
        {[](Blob& b) { b.shape = Dims(65, 1); }, ErrorCode::bad_layout, "65 dimensions"},
        {[](Blob& b) { b.strides = {1}; }, ErrorCode::bad_layout,
         "strides have 1 entries; expected one per dimension, 2"},
        {[](Blob& b) { b.strides = {3, 1, 1}; }, ErrorCode::bad_layout, "strides have 3 entries"},
        {[](Blob& b) { b.shape = {}, b.strides = {1}; }, ErrorCode::bad_layout, "strides have 1 entries"},
        {[](Blob& b) { b.shape = {INT64_MAX, 8}; }, ErrorCode::overflow, "more bytes"},
        {[](Blob& b) { b.strides = {INT64_MAX, 1}; }, ErrorCode::overflow, "address space"},
        {[](Blob& b) { b.dtype = isthmus::DType(kDLFloat, 31); }, ErrorCode::bad_dtype, "bits 31"},
        {[](Blob& b) { b.element_size = 8; }, ErrorCode::bad_dtype,
         "'element_size': 8 bytes; expected 4, the size of float32"},
        {[](Blob& b) { b.element_size = -4; }, ErrorCode::bad_dtype, "'element_size': -4"},
        {[](Blob& b) { b.device = Device(99, 0); }, ErrorCode::bad_device, "type 99"},
        {[](Blob& b) { b.ptr = reinterpret_cast<char*>(memory) + 2; }, ErrorCode::needs_copy, "not aligned"},
    };
    for (const auto& fault : faults) {
        Counts counts;
        Blob blob = sound_blob();
        fault.spoil(blob);
        const auto result = isthmus::from_blob(blob, CountedOwner(counts));
        ASSERT_FALSE(result) << fault.words;
        EXPECT_EQ(result.error().code(), fault.code) << result.error().what();
        EXPECT_NE(std::string(result.error().what()).find(fault.words), std::string::npos) << result.error().what();
        EXPECT_EQ(counts.called, 1) << fault.words << ": a refused owner is released";
        EXPECT_EQ(counts.destroyed, 1) << fault.words;
    }
}

TEST(Blob, WithAnOwnerItIsReleasedOnce) {
    Counts counts;
    {
        const Tensor t = isthmus::from_blob(sound_blob(), CountedOwner(counts)).value();
        const Tensor copy = t;
        EXPECT_EQ(counts.destroyed, 0);
    }
    EXPECT_EQ(counts.called, 1);
    EXPECT_EQ(counts.destroyed, 1);
}

}  // namespace
