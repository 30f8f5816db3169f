// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/text.h>

#include <string>

#include <gtest/gtest.h>

#include <isthmus/core/error.h>

namespace {

using isthmus::detail::concat;
using isthmus::detail::is_utf8;
using isthmus::detail::printable;
using namespace std::string_literals;

TEST(Utf8, WhatIsIt) {
    for (const char* text : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                             "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"})
        EXPECT_TRUE(is_utf8(text)) << text;
    for (const char* text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2",
                             "\xc2"
                             "a",
                             "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80",
                             "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff"})
        EXPECT_FALSE(is_utf8(text)) << text;
    EXPECT_FALSE(is_utf8("\xbf\xbf")) << "no beginning";
    EXPECT_FALSE(is_utf8(std::string_view("\xe2\x82\xac", 2))) << "the rest stands behind the end";
}

TEST(Utf8, WhatIsPrintableStays) {
    for (const char* text : {"", "found int8", "a line\nand\ta tab", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\\x00"})
        EXPECT_EQ(printable(text), text);
}

TEST(Utf8, WhatIsNotIsWrittenAsItsByte) {
    EXPECT_EQ(printable("a\0b"s), "a\\x00b");
    EXPECT_EQ(printable("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
    EXPECT_EQ(printable("\xff\xc3\xa9\xc3"), "\\xff\xc3\xa9\\xc3");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
}

TEST(Utf8, AnErrorSaysAllOfItsText) {
    const std::string name = "a\0b\x1b\xff"s;
    const isthmus::Error error(isthmus::ErrorCode::bad_file, concat({"tensor '", name, "' has no dtype"}));
    EXPECT_STREQ(error.what(), "tensor 'a\\x00b\\x1b\\xff' has no dtype");
    EXPECT_STREQ(error.prefixed("load('x'): ").what(), "load('x'): tensor 'a\\x00b\\x1b\\xff' has no dtype");
}

TEST(Utf8, AMessageIsWhole) {
    const std::string name = "a\0b"s;
    EXPECT_EQ(concat({isthmus::detail::Message(name), "."}), "a\0b."s);
    EXPECT_EQ(concat({isthmus::detail::Message({name, "c"}), isthmus::detail::Message({})}), "a\0bc"s);
}

}  // namespace
