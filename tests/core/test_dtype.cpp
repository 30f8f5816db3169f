// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/dtype.h>

#include <complex>
#include <string>

#include <gtest/gtest.h>

using isthmus::DType;

namespace {

struct NamedDType {
    DType dtype;
    DLDataType dl;
    const char* name;
    std::int64_t itemsize;
    std::int64_t alignment;
};

// Every type code of DLPack 1.3, written out here a second time on purpose.
const NamedDType all_dtypes[] = {
    {isthmus::int8, {kDLInt, 8, 1}, "int8", 1, 1},
    {isthmus::int16, {kDLInt, 16, 1}, "int16", 2, 2},
    {isthmus::int32, {kDLInt, 32, 1}, "int32", 4, 4},
    {isthmus::int64, {kDLInt, 64, 1}, "int64", 8, 8},
    {isthmus::uint8, {kDLUInt, 8, 1}, "uint8", 1, 1},
    {isthmus::uint16, {kDLUInt, 16, 1}, "uint16", 2, 2},
    {isthmus::uint32, {kDLUInt, 32, 1}, "uint32", 4, 4},
    {isthmus::uint64, {kDLUInt, 64, 1}, "uint64", 8, 8},
    {isthmus::float16, {kDLFloat, 16, 1}, "float16", 2, 2},
    {isthmus::float32, {kDLFloat, 32, 1}, "float32", 4, 4},
    {isthmus::float64, {kDLFloat, 64, 1}, "float64", 8, 8},
    {isthmus::bfloat16, {kDLBfloat, 16, 1}, "bfloat16", 2, 2},
    {isthmus::complex32, {kDLComplex, 32, 1}, "complex32", 4, 2},
    {isthmus::complex64, {kDLComplex, 64, 1}, "complex64", 8, 4},
    {isthmus::complex128, {kDLComplex, 128, 1}, "complex128", 16, 8},
    {isthmus::boolean, {kDLBool, 8, 1}, "bool", 1, 1},
    {isthmus::float8_e3m4, {kDLFloat8_e3m4, 8, 1}, "float8_e3m4", 1, 1},
    {isthmus::float8_e4m3, {kDLFloat8_e4m3, 8, 1}, "float8_e4m3", 1, 1},
    {isthmus::float8_e4m3b11fnuz, {kDLFloat8_e4m3b11fnuz, 8, 1}, "float8_e4m3b11fnuz", 1, 1},
    {isthmus::float8_e4m3fn, {kDLFloat8_e4m3fn, 8, 1}, "float8_e4m3fn", 1, 1},
    {isthmus::float8_e4m3fnuz, {kDLFloat8_e4m3fnuz, 8, 1}, "float8_e4m3fnuz", 1, 1},
    {isthmus::float8_e5m2, {kDLFloat8_e5m2, 8, 1}, "float8_e5m2", 1, 1},
    {isthmus::float8_e5m2fnuz, {kDLFloat8_e5m2fnuz, 8, 1}, "float8_e5m2fnuz", 1, 1},
    {isthmus::float8_e8m0fnu, {kDLFloat8_e8m0fnu, 8, 1}, "float8_e8m0fnu", 1, 1},
    {isthmus::float6_e2m3fn, {kDLFloat6_e2m3fn, 6, 1}, "float6_e2m3fn", 1, 1},
    {isthmus::float6_e3m2fn, {kDLFloat6_e3m2fn, 6, 1}, "float6_e3m2fn", 1, 1},
    {isthmus::float4_e2m1fn, {kDLFloat4_e2m1fn, 4, 1}, "float4_e2m1fn", 1, 1},
    {DType(kDLFloat, 128), {kDLFloat, 128, 1}, "float128", 16, 16},
    {DType(kDLOpaqueHandle, 64), {kDLOpaqueHandle, 64, 1}, "opaque64", 8, 8},
    {DType(kDLInt, 4), {kDLInt, 4, 1}, "int4", 1, 1},
    {DType(kDLUInt, 1), {kDLUInt, 1, 1}, "uint1", 1, 1},
    {DType(kDLInt, 128), {kDLInt, 128, 1}, "int128", 16, 16},
    {DType(kDLBool, 1), {kDLBool, 1, 1}, "bool1", 1, 1},
    {DType(kDLFloat, 32, 4), {kDLFloat, 32, 4}, "float32x4", 16, 4},
    {DType(kDLComplex, 64, 2), {kDLComplex, 64, 2}, "complex64x2", 16, 4},
    {DType(kDLBool, 8, 3), {kDLBool, 8, 3}, "boolx3", 3, 1},
    {DType(kDLFloat4_e2m1fn, 4, 2), {kDLFloat4_e2m1fn, 4, 2}, "float4_e2m1fnx2", 1, 1},
    {DType(kDLUInt, 8, 65535), {kDLUInt, 8, 65535}, "uint8x65535", 65535, 1},
};

TEST(DType, EveryDLPackTypeHasItsNameBothWays) {
    for (const auto& row : all_dtypes) {
        EXPECT_EQ(row.dtype, DType(row.dl)) << row.name;
        EXPECT_TRUE(row.dtype.is_valid()) << row.name;
        EXPECT_EQ(row.dtype.name(), row.name);
        EXPECT_EQ(row.dtype.itemsize(), row.itemsize) << row.name;
        EXPECT_EQ(row.dtype.alignment(), row.alignment) << row.name;
        DType parsed{255, 0, 0};
        ASSERT_TRUE(DType::parse(row.name, parsed)) << row.name;
        EXPECT_EQ(parsed, row.dtype) << row.name;
    }
}

TEST(DType, EveryTypeCodeOfTheHeaderIsInTheTable) {
    for (int code = kDLInt; code <= kDLFloat4_e2m1fn; ++code) {
        bool found = false;
        for (const auto& row : all_dtypes) found = found || row.dtype.code == code;
        EXPECT_TRUE(found) << "code " << code;
    }
    EXPECT_FALSE(DType(kDLFloat4_e2m1fn + 1, 8).is_valid());
}

TEST(DType, WhatIsValidHasANameThatLeadsBack) {
    int valid = 0;
    for (int code = 0; code < 256; ++code)
        for (int bits = 0; bits < 256; ++bits)
            for (int lanes : {1, 2, 16, 65535}) {
                const DType dtype{code, bits, lanes};
                DType parsed{255, 0, 0};
                const bool back = DType::parse(dtype.name(), parsed);
                if (!dtype.is_valid()) {
                    EXPECT_FALSE(back) << dtype.name();
                    continue;
                }
                ++valid;
                ASSERT_TRUE(back) << dtype.name();
                EXPECT_EQ(parsed, dtype) << dtype.name();
            }
    EXPECT_GT(valid, 100);
}

TEST(DType, WidthsThatContradictTheCodeAreInvalid) {
    for (const DType& dtype :
         {DType{kDLFloat, 0}, DType{kDLFloat, 8}, DType{kDLFloat, 33}, DType{kDLInt, 3}, DType{kDLInt, 0},
          DType{kDLBfloat, 32}, DType{kDLComplex, 16}, DType{kDLBool, 32}, DType{kDLFloat8_e4m3fn, 16},
          DType{kDLFloat4_e2m1fn, 8}, DType{kDLFloat6_e2m3fn, 8}, DType{kDLFloat, 32, 0}, DType{18, 8}, DType{255, 8}})
        EXPECT_FALSE(dtype.is_valid()) << dtype.name();
}

// 288 bits are 32 modulo 256: a silent float32 would be a wrong one.
TEST(DType, NumbersTooLargeForTheirFieldsDoNotWrapAround) {
    EXPECT_FALSE(DType(kDLFloat, 288).is_valid());
    EXPECT_FALSE(DType(256 + kDLFloat, 32).is_valid());
    EXPECT_FALSE(DType(kDLFloat, 32, 65537).is_valid());
    EXPECT_FALSE(DType(-1, 32).is_valid());
    EXPECT_FALSE(DType(kDLFloat, -224).is_valid());
    EXPECT_FALSE(DType(kDLFloat, 32, -65535).is_valid());
}

TEST(DType, ParseRefusesEverythingElseAndLeavesTheOutputAlone) {
    for (const char* name : {"",
                             " float32",
                             "float32 ",
                             "float",
                             "Float32",
                             "float31",
                             "float0",
                             "float032",
                             "float999999999999",
                             "float288",         // 32 in eight bits
                             "float4294967328",  // 32 in 32 bits
                             "int264",
                             "floatx4",
                             "float32x",
                             "float32x0",
                             "float32x65536",
                             "float32x65540",  // 4 in sixteen bits
                             "float32y4",
                             "float32x04",
                             "float32x4x4",
                             "float32x-1",
                             "x4",
                             "int",
                             "int8_",
                             "bfloat",
                             "bfloat32",
                             "bool32",
                             "float8_e4m3fnuz_",
                             "float8",
                             "float8_e4m38",
                             "complex",
                             "complex64x",
                             "double",
                             "f4"}) {
        DType out = isthmus::int16;
        EXPECT_FALSE(DType::parse(name, out)) << name;
        EXPECT_EQ(out, isthmus::int16) << name;
    }
}

TEST(DType, SubByteTypesShareBytes) {
    EXPECT_TRUE(isthmus::float4_e2m1fn.is_subbyte());
    EXPECT_TRUE(isthmus::float6_e3m2fn.is_subbyte());
    EXPECT_TRUE(DType(kDLUInt, 1).is_subbyte());
    EXPECT_FALSE(DType(kDLFloat4_e2m1fn, 4, 2).is_subbyte());
    EXPECT_TRUE(DType(kDLFloat4_e2m1fn, 4, 3).is_subbyte());
    EXPECT_EQ(DType(kDLFloat4_e2m1fn, 4, 3).itemsize(), 2);
    EXPECT_FALSE(isthmus::int8.is_subbyte());
}

TEST(DType, ConvertsToDLDataTypeAndBack) {
    const DLDataType dl = DType{kDLComplex, 64, 2};
    EXPECT_EQ(dl.code, kDLComplex);
    EXPECT_EQ(dl.bits, 64);
    EXPECT_EQ(dl.lanes, 2);
    EXPECT_EQ(DType(dl), DType(kDLComplex, 64, 2));
    EXPECT_EQ(isthmus::float32.bits(), 32);
    EXPECT_EQ(isthmus::float32.lanes(), 1);
}

struct Half {
    std::uint16_t raw;
};
}  // namespace
template <>
struct isthmus::dtype_traits<Half> {
    static constexpr DType value = isthmus::float16;
};
namespace {

TEST(DType, OfCppTypes) {
    EXPECT_EQ(isthmus::dtype_of<float>(), isthmus::float32);
    EXPECT_EQ(isthmus::dtype_of<const double>(), isthmus::float64);
    EXPECT_EQ(isthmus::dtype_of<bool>(), isthmus::boolean);
    EXPECT_EQ(isthmus::dtype_of<std::int8_t>(), isthmus::int8);
    EXPECT_EQ(isthmus::dtype_of<std::uint8_t>(), isthmus::uint8);
    EXPECT_EQ(isthmus::dtype_of<std::int64_t>(), isthmus::int64);
    EXPECT_EQ(isthmus::dtype_of<long long>(), isthmus::int64);
    EXPECT_EQ(isthmus::dtype_of<std::size_t>(), isthmus::uint64);
    EXPECT_EQ(isthmus::dtype_of<std::complex<float>>(), isthmus::complex64);
    EXPECT_EQ(isthmus::dtype_of<std::complex<double>>(), isthmus::complex128);
    EXPECT_EQ(isthmus::dtype_of<Half>(), isthmus::float16);
    static_assert(!isthmus::has_dtype<std::string>);
    static_assert(!isthmus::has_dtype<float*>);
    static_assert(!isthmus::has_dtype<std::complex<long double>>, "256 bits do not fit DLDataType::bits");
}

}  // namespace
