// SPDX-License-Identifier: Apache-2.0
#include "src/load/safetensors.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::load_impl::JsonReader;

template <class Read>
std::string reading_error(Read&& read) {
    try {
        read();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_file);
        return error.what();
    }
    return "";
}

TEST(Json, ObjectsOfNumbersAndTexts) {
    JsonReader json(" { \"a\" : [ 1 ,\t20,9223372036854775807 ] ,\r\n\"\": \"x\" , \"c\" : { } , \"d\":[ ]} ");
    std::vector<std::string> keys;
    std::vector<std::int64_t> numbers;
    json.object([&](std::string key) {
        keys.push_back(key);
        if (key == "a") json.array([&] { numbers.push_back(json.whole_number()); });
        if (key.empty()) {
            EXPECT_EQ(json.string(), "x");
        }
        if (key == "c") json.object([](const std::string&) { FAIL(); });
        if (key == "d") json.array([] { FAIL(); });
    });
    json.end();
    EXPECT_EQ(keys, (std::vector<std::string>{"a", "", "c", "d"}));
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 20, INT64_MAX}));
}

TEST(Json, Escapes) {
    EXPECT_EQ(JsonReader(R"("\"\\\/\b\f\n\r\t")").string(), "\"\\/\b\f\n\r\t");
    EXPECT_EQ(JsonReader(R"("\u0041\u00e9\u20AC\uD83D\uDE00")").string(), "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(JsonReader(R"("\u0000")").string(), std::string(1, '\0'));
}

TEST(Json, WhatIsNoTextIsRefused) {
    for (const char* text :
         {"", "x", "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\ud800x\"",
          "\"\\ud800\\n\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\n\"", "\"\x01\""})
        EXPECT_NE(reading_error([&] { (void)JsonReader(text).string(); }), "") << text;
    EXPECT_NE(reading_error([] { (void)JsonReader(R"("\x0041")").string(); }), "");
    EXPECT_NE(reading_error([] { (void)JsonReader(std::string_view("\"ab\"", 3)).string(); }), "")
        << "its end stands behind the end";
}

TEST(Json, WhatIsNoWholeNumberIsRefused) {
    EXPECT_EQ(JsonReader("0").whole_number(), 0);
    for (const char* text : {"", "-1", "x", "01", "00", "9223372036854775808", "99999999999999999999999999"})
        EXPECT_NE(reading_error([&] { (void)JsonReader(text).whole_number(); }), "") << text;
    for (const char* text : {"1.5", "1e3", "1 2"})
        EXPECT_NE(reading_error([&] {
                      JsonReader json(text);
                      (void)json.whole_number();
                      json.end();
                  }),
                  "")
            << text;
}

TEST(Json, WhatIsNoArrayIsRefused) {
    for (const char* text : {"", "[", "[1", "[1,", "[1,]", "[,]", "[1 2]", "{1}", "[1}"})
        EXPECT_NE(reading_error([&] {
                      JsonReader json(text);
                      json.array([&] { (void)json.whole_number(); });
                      json.end();
                  }),
                  "")
            << text;
}

TEST(Json, AnErrorSaysWhere) {
    JsonReader json("{\"a\" 1}");
    EXPECT_EQ(reading_error([&] { json.object([](const std::string&) {}); }),
              "the header's JSON is not sound at byte 5: expected ':'");
}

}  // namespace
