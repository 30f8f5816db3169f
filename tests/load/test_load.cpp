// SPDX-License-Identifier: Apache-2.0
#include <isthmus/load.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>
#include <vector>

namespace {

using isthmus::ErrorCode;
using isthmus::Result;
using isthmus::Tensor;
using isthmus::TensorFile;
using isthmus::shared::Access;

/// A file of its own for one test, gone at its end.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& bytes) {
        const int descriptor = ::mkstemp(path_.data());
        EXPECT_GE(descriptor, 0);
        EXPECT_EQ(::write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        ::close(descriptor);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { ::unlink(path_.c_str()); }

    const std::string& path() const { return path_; }
    std::string bytes() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::string path_ = ::testing::TempDir() + "isthmus_load_XXXXXX";
};

std::string file_of(const std::string& header, const std::string& elements) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
    return bytes + header + elements;
}

/// Two tensors: "x", float32[2, 3] of 0 to 5, and "y", uint8[2] of 7 and 8. 32 bytes of elements from byte 128 on.
std::string sound_file() {
    std::string header = R"({"__metadata__":{"made":"by hand"},"y":{"dtype":"U8","shape":[2],"data_offsets":[24,26]},)"
                         R"("x":{"shape":[2,3],"dtype":"F32","data_offsets":[0,24]}})";
    header.resize(120 + 32, ' ');
    const std::array<float, 6> x{0, 1, 2, 3, 4, 5};
    return file_of(header, std::string(reinterpret_cast<const char*>(x.data()), 24) + "\x07\x08");
}

std::string error_of(const std::string& bytes) {
    const TemporaryFile file(bytes);
    const Result<TensorFile> loaded = isthmus::load(file.path());
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code(), ErrorCode::bad_file) << loaded.error().what();
    const std::string text = loaded.error().what(), prefix = "'" + file.path() + "': ";
    EXPECT_EQ(text.substr(0, prefix.size()), prefix);
    return text.substr(prefix.size());
}

TEST(Load, TheTensorsOfAFile) {
    const TemporaryFile file(sound_file());
    const TensorFile loaded = isthmus::load(file.path()).value();
    ASSERT_EQ(loaded.size(), 2U);
    EXPECT_EQ(loaded.entries()[0].name, "x");
    EXPECT_EQ(loaded.entries()[1].name, "y");
    EXPECT_TRUE(loaded.contains("x") && loaded.contains("y") && !loaded.contains("z") && !loaded.contains(""));
    ASSERT_EQ(loaded.metadata().size(), 1U);
    EXPECT_EQ(loaded.metadata()[0].second, "by hand");
    const Tensor x = loaded.at("x").value();
    EXPECT_EQ(x.dtype(), isthmus::float32);
    EXPECT_TRUE(x.read_only());
    const auto view = x.view<const float, 2>().value();
    EXPECT_EQ(view(1, 2), 5);
    const Tensor y = loaded.at("y").value();
    EXPECT_EQ((y.view<const unsigned char, 1>().value()(1)), 8);
    EXPECT_EQ(loaded.at("z").error().code(), ErrorCode::bad_argument);
    EXPECT_STREQ(loaded.at("z").error().what(), "argument 'name': no tensor 'z' among the 2 of the file");
}

TEST(Load, TensorsOutliveTheFileObjectAndTheName) {
    Tensor x;
    {
        const TemporaryFile file(sound_file());
        x = isthmus::load(file.path()).value().at("x").value();
    }
    EXPECT_EQ((x.view<const float, 2>().value()(1, 2)), 5);
}

TEST(Load, WhatIsWrittenStaysHere) {
    const TemporaryFile file(sound_file());
    const Tensor x = isthmus::load(file.path(), Access::copy_on_write).value().at("x").value();
    ASSERT_FALSE(x.read_only());
    x.view<float, 2>().value()(0, 0) = 42;
    EXPECT_EQ(file.bytes(), sound_file());
    const Tensor again = isthmus::load(file.path()).value().at("x").value();
    EXPECT_EQ((again.view<const float, 2>().value()(0, 0)), 0);
    const Result<TensorFile> shared = isthmus::load(file.path(), Access::shared);
    EXPECT_EQ(shared.error().code(), ErrorCode::bad_argument);
}

TEST(Load, PrivatePagesOfAReadOnlyTensor) {
    const TemporaryFile file(sound_file());
    const TensorFile loaded = isthmus::load(file.path()).value();
    const Tensor x = loaded.at("x").value(), row = x.select(0, 1);
    isthmus::detail::Block* mine = isthmus::detail::private_pages(row.block());
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(mine->flags & isthmus::flag::read_only, 0U);
    auto* data = static_cast<float*>(mine->dl.data);
    EXPECT_EQ(data[2], 5);
    data[2] = 42;
    EXPECT_EQ((x.view<const float, 2>().value()(1, 2)), 5);
    isthmus::detail::Block* again = isthmus::detail::private_pages(x.block());
    EXPECT_EQ(static_cast<float*>(again->dl.data)[5], 42) << "one set of pages, whoever asks";
    isthmus::detail::drop(mine);
    isthmus::detail::drop(again);
    EXPECT_EQ(isthmus::detail::private_pages(Tensor::empty({2}, isthmus::float32).as_read_only().block()), nullptr);
}

TEST(Load, AReadOnlyHandleOfWrittenPagesHasNoOthers) {
    const TemporaryFile file(sound_file());
    const Tensor x = isthmus::load(file.path()).value().at("x").value();
    isthmus::detail::Block* mine = isthmus::detail::private_pages(x.block());
    mine->flags |= isthmus::flag::read_only;
    EXPECT_EQ(isthmus::detail::private_pages(mine), nullptr);
    isthmus::detail::drop(mine);
}

TEST(Load, ManyThreadsGetTheSamePages) {
    const TemporaryFile file(sound_file());
    const Tensor x = isthmus::load(file.path()).value().at("x").value();
    std::array<void*, 8> seen{};
    std::vector<std::thread> threads;
    for (void*& data : seen)
        threads.emplace_back([&x, &data] {
            isthmus::detail::Block* mine = isthmus::detail::private_pages(x.block());
            data = mine->dl.data;
            isthmus::detail::drop(mine);
        });
    for (std::thread& thread : threads) thread.join();
    for (const void* data : seen) EXPECT_EQ(data, seen[0]);
}

TEST(Load, ACopyIsAlignedAndItsOwn) {
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                               R"("b":{"dtype":"F64","shape":[],"data_offsets":[1,9]}})";
    const double value = 2.5;
    const TemporaryFile file(file_of(header, "\x01" + std::string(reinterpret_cast<const char*>(&value), 8)));
    const TensorFile loaded = isthmus::load(file.path()).value();
    const Result<Tensor> crooked = loaded.at("b");
    ASSERT_FALSE(crooked);
    EXPECT_EQ(crooked.error().code(), ErrorCode::needs_copy);
    EXPECT_NE(std::string(crooked.error().what()).find("copy('b') has it"), std::string::npos);
    const Tensor copy = loaded.copy("b").value();
    EXPECT_FALSE(copy.read_only());
    EXPECT_EQ((copy.view<const double, 0>().value()()), 2.5);
    EXPECT_EQ(loaded.copy("c").error().code(), ErrorCode::bad_argument);
}

TEST(Load, WhatTheSystemRefuses) {
    const Result<TensorFile> missing = isthmus::load("/there/is/none");
    EXPECT_EQ(missing.error().code(), ErrorCode::system_failed);
    EXPECT_STREQ(missing.error().what(), "'/there/is/none': open failed: No such file or directory");
    const Result<TensorFile> folder = isthmus::load("/");
    EXPECT_EQ(folder.error().code(), ErrorCode::bad_file);
    EXPECT_EQ(isthmus::load(static_cast<const char*>(nullptr)).error().code(), ErrorCode::bad_argument);
}

TEST(Load, AFileWithoutTensors) {
    EXPECT_EQ(error_of(file_of("{}", "")), "");
    EXPECT_EQ(error_of(file_of("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", "")), "");
}

TEST(Load, PackedElementsEndWithAByte) {
    EXPECT_EQ(error_of(file_of("{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", "abc")), "");
    EXPECT_NE(error_of(file_of("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", "ab")), "");
}

TEST(Load, LengthsThatCannotBe) {
    EXPECT_EQ(error_of(""), "it has 0 bytes; expected at least 8");
    EXPECT_EQ(error_of("1234567"), "it has 7 bytes; expected at least 8");
    EXPECT_EQ(error_of(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
              "this is not a safetensors file, or it is cut short: the header's length is 3 bytes, but 2 follow");
    EXPECT_EQ(
        error_of(std::string(8, '\xff') + "{}"),
        "this is not a safetensors file: the header's length would be 18446744073709551615 bytes; expected at most "
        "100000000");
    EXPECT_EQ(error_of(std::string(8, '\0')), "this is not a safetensors file: the header does not begin with '{'");
}

struct Bad {
    const char* header;
    const char* text;  // a part of the error
};

TEST(Load, HeadersThatAreNotSound) {
    const Bad all[] = {
        {" []", "begin with '{'"},
        {"   ", "begin with '{'"},
        {"{", "not sound at byte 1"},
        {"{}x", "expected the end"},
        {"{\"\xff\":{}}", "UTF-8"},
        {"{\"a\":1}", "expected '{'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "tensor 'a' has no data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", "tensor 'a' has no shape"},
        {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", "tensor 'a' has no dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         "a second 'dtype' of tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", "a second 'shape'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}",
         "a second 'data_offsets'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"scale\":2.}}", "expected a value"},
        {"{\"a\":{\"dtype\":\"Q8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "dtype 'Q8'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", "whole number"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]}}", "expected 5 bytes for (5,) of uint8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", "has the bytes 4 to 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}", "the file is cut short"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
         "1 bytes at the end of the file belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", "begins at byte 1; expected 0"},
        {"{}", "4 bytes at the end"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_"
         "offsets\":[1,4]}}",
         "tensor 'b' begins at byte 1; expected 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
         "offsets\":[2,4]}}",
         "tensor 'a' begins at byte 2; expected 0"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", "2**63 - 1 bits"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[288230376151711744],\"data_offsets\":[0,4]}}", "2**63 - 1 bits"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "a second '__metadata__'"},
        {"{\"__metadata__\":{\"a\":1}}", "expected '\"'"},
    };
    for (const Bad& bad : all) {
        const std::string text = error_of(file_of(bad.header, "abcd"));
        EXPECT_NE(text.find(bad.text), std::string::npos) << bad.header << "\n" << text;
    }
}

/// As the format's own library has it, though its text asks for more.
TEST(Load, WhatIsLetPass) {
    const std::string one = "{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]";
    EXPECT_EQ(error_of(file_of(" \n\r\t{\"a\":" + one + "}}", "abcd")), "");
    EXPECT_EQ(error_of(file_of("{\"__metadata__\":null,\"a\":" + one + "}}", "abcd")), "");
    EXPECT_EQ(error_of(file_of("{\"a\":" + one + ",\"scale\":[-2.5e+3,{\"b\":null}]}}", "abcd")), "");
    const std::string twice = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":" + one + "}}";
    const TemporaryFile file(file_of(twice, "abcd"));
    const TensorFile loaded = isthmus::load(file.path()).value();
    EXPECT_EQ(loaded.size(), 1U);
    EXPECT_EQ(loaded.at("a").value().dtype(), isthmus::int8);
}

TEST(Load, APathWithANul) {
    const Result<TensorFile> loaded = isthmus::load(std::string("/\0b", 3));
    EXPECT_EQ(loaded.error().code(), ErrorCode::bad_argument);
    EXPECT_STREQ(loaded.error().what(), "argument 'path': it has a NUL; expected the path of a file");
}

TEST(Load, MoreDimensionsThanATensorHas) {
    std::string shape = "1";
    for (int i = 0; i < isthmus::max_ndim; ++i) shape += ",1";
    const std::string text =
        error_of(file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + shape + "],\"data_offsets\":[0,1]}}", "a"));
    EXPECT_NE(text.find("dimensions; expected at most"), std::string::npos) << text;
}

TEST(Load, FilesAreClosed) {
    const auto open_files = [] {
        int count = 0;
        for (int i = 0; i < 1024; ++i) count += ::fcntl(i, F_GETFD) != -1;
        return count;
    };
    const TemporaryFile good(sound_file()), bad("{");
    const int before = open_files();
    {
        const Tensor x = isthmus::load(good.path()).value().at("x").value();
        EXPECT_EQ(open_files(), before + 1);
        EXPECT_FALSE(isthmus::load(bad.path()));
    }
    EXPECT_EQ(open_files(), before);
}

}  // namespace
