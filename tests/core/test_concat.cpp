// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include <gtest/gtest.h>

#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>

namespace {

using isthmus::detail::concat;

TEST(Concat, Text) {
    const std::string s = "of";
    EXPECT_EQ(concat({"one ", s, std::string_view(" three, four", 6)}), "one of three");
    EXPECT_EQ(concat({}), "");
    EXPECT_EQ(concat({"", std::string_view()}), "");
}

TEST(Concat, NumbersAsTheStandardWritesThem) {
    for (long long n : {0LL, 7LL, -1LL, 1234567890123LL, LLONG_MAX, LLONG_MIN})
        EXPECT_EQ(concat({n}), std::to_string(n));
    for (unsigned long long n : {0ULL, 10ULL, ULLONG_MAX}) EXPECT_EQ(concat({n}), std::to_string(n));
    const std::uint8_t byte = 200;
    EXPECT_EQ(concat({byte, " ", std::size_t{3}, " ", -5, " ", 6u}), "200 3 -5 6");
}

TEST(Concat, Addresses) {
    EXPECT_EQ(concat({isthmus::detail::hex(0ULL)}), "0x0");
    EXPECT_EQ(concat({isthmus::detail::hex(0xbeefULL)}), "0xbeef");
    EXPECT_EQ(concat({isthmus::detail::hex(UINT64_MAX)}), "0xffffffffffffffff");
    EXPECT_EQ(concat({isthmus::detail::hex(reinterpret_cast<const void*>(0x10))}), "0x10");
}

TEST(Concat, Sizes) {
    const std::int64_t sizes[] = {480, -3, 1};
    EXPECT_EQ(concat({isthmus::detail::sizes_text(sizes, 0)}), "()");
    EXPECT_EQ(concat({isthmus::detail::sizes_text(sizes, 1)}), "(480,)");
    EXPECT_EQ(concat({isthmus::detail::sizes_text(sizes, 3)}), "(480, -3, 1)");
}

TEST(Concat, NamesOfDTypesAndDevices) {
    EXPECT_EQ(concat({isthmus::DType(kDLFloat, 32, 1024), " on ", isthmus::Device::cuda(3)}), "float32x1024 on cuda:3");
    EXPECT_EQ(concat({isthmus::DType(kDLUInt, 8, 65535)}), "uint8x65535");
    EXPECT_EQ(concat({isthmus::Device{-2, -7}}), isthmus::Device({-2, -7}).name());
    EXPECT_EQ(concat({isthmus::Device{kDLCPU, INT_MAX}}), "cpu:2147483647");
}

std::string text_of(isthmus::detail::Message message) { return concat({"<", message, ">"}); }

TEST(Concat, MessagesOfOneTextOrOfPieces) {
    EXPECT_EQ(text_of("no memory"), "<no memory>");
    EXPECT_EQ(text_of(""), "<>");
    EXPECT_EQ(text_of(std::string(100, 'x')), "<" + std::string(100, 'x') + ">");
    EXPECT_EQ(text_of({"size ", 3, std::string(" of "), isthmus::uint8}), "<size 3 of uint8>");
    EXPECT_EQ(text_of({"alone"}), "<alone>");
    EXPECT_EQ(text_of({}), "<>");
}

TEST(Concat, MessagesWithinMessages) {
    const auto outer = [](isthmus::detail::Message inner) { return text_of({"it ", inner, "."}); };
    EXPECT_EQ(outer("failed"), "<it failed.>");
    EXPECT_EQ(outer({"has ", 2, " sizes"}), "<it has 2 sizes.>");
}

}  // namespace
