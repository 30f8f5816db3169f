// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/error.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::ErrorKind;

namespace {

void count_drop(void* cause) { ++*static_cast<int*>(cause); }

TEST(Error, EveryCodeHasANameOfItsOwn) {
    std::set<std::string> names;
    constexpr int count = 24;
    for (int code = 1; code <= count; ++code) {
        const std::string name = isthmus::error_code_name(static_cast<ErrorCode>(code));
        EXPECT_NE(name, "unknown") << code;
        EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_STREQ(isthmus::error_code_name(static_cast<ErrorCode>(count + 1)), "unknown");
    EXPECT_STREQ(isthmus::error_code_name(ErrorCode{}), "unknown") << "0 means no error in the C ABI";
}

// Programs in other languages are compiled against these numbers.
TEST(Error, TheNumbersNeverChange) {
    EXPECT_EQ(static_cast<int>(ErrorCode::not_a_tensor), 1);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_capsule), 2);
    EXPECT_EQ(static_cast<int>(ErrorCode::consumed_capsule), 3);
    EXPECT_EQ(static_cast<int>(ErrorCode::unsupported_version), 4);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_dtype), 5);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_layout), 6);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_device), 7);
    EXPECT_EQ(static_cast<int>(ErrorCode::read_only), 8);
    EXPECT_EQ(static_cast<int>(ErrorCode::null_data), 9);
    EXPECT_EQ(static_cast<int>(ErrorCode::overflow), 10);
    EXPECT_EQ(static_cast<int>(ErrorCode::producer_failed), 11);
    EXPECT_EQ(static_cast<int>(ErrorCode::needs_copy), 12);
    EXPECT_EQ(static_cast<int>(ErrorCode::not_values), 13);
    EXPECT_EQ(static_cast<int>(ErrorCode::requires_grad), 14);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_argument), 15);
    EXPECT_EQ(static_cast<int>(ErrorCode::consumer_failed), 16);
    EXPECT_EQ(static_cast<int>(ErrorCode::unavailable), 17);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_thread), 18);
    EXPECT_EQ(static_cast<int>(ErrorCode::out_of_memory), 19);
    EXPECT_EQ(static_cast<int>(ErrorCode::system_failed), 20);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_message), 21);
    EXPECT_EQ(static_cast<int>(ErrorCode::peer_closed), 22);
    EXPECT_EQ(static_cast<int>(ErrorCode::timed_out), 23);
    EXPECT_EQ(static_cast<int>(ErrorCode::bad_file), 24);
}

TEST(Error, IsAStandardExceptionWithCodeKindAndText) {
    try {
        throw Error(ErrorCode::bad_dtype, "found int8");
    } catch (const std::exception& e) {
        EXPECT_STREQ(e.what(), "found int8");
    }
    const Error error(ErrorCode::not_a_tensor, "x");
    EXPECT_EQ(error.code(), ErrorCode::not_a_tensor);
    EXPECT_EQ(error.kind(), ErrorKind::type);
    EXPECT_EQ(Error(ErrorCode::bad_argument, "").kind(), ErrorKind::value);
    EXPECT_EQ(Error(ErrorCode::bad_layout, "").kind(), ErrorKind::buffer);
    EXPECT_EQ(Error(ErrorCode::bad_layout, ErrorKind::value, "").kind(), ErrorKind::value);
}

TEST(Error, CopiesShareAndMovesEmpty) {
    Error first(ErrorCode::overflow, "too large");
    Error second = first;
    EXPECT_EQ(first.what(), second.what()) << "the same text, not an equal one";
    Error third = std::move(first);
    EXPECT_STREQ(third.what(), "too large");
    EXPECT_NE(first.what(), nullptr);
    EXPECT_EQ(first.code(), ErrorCode::bad_argument);
    first = third;
    EXPECT_EQ(first.code(), ErrorCode::overflow);
    static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_move_constructible_v<Error>);
}

TEST(Error, TheCauseIsReleasedOnceWithTheLastCopy) {
    int drops = 0;
    {
        Error first(ErrorCode::producer_failed, "raised");
        first.set_cause(&drops, count_drop);
        const Error second = first;
        EXPECT_EQ(second.cause(), &drops);
        {
            const Error third = second;
        }
        EXPECT_EQ(drops, 0);
    }
    EXPECT_EQ(drops, 1);
}

TEST(Error, ANewCauseReleasesTheOld) {
    int old_drops = 0, new_drops = 0;
    {
        Error error(ErrorCode::producer_failed, "raised");
        error.set_cause(&old_drops, count_drop);
        error.set_cause(&new_drops, count_drop);
        EXPECT_EQ(old_drops, 1);
        EXPECT_EQ(error.cause(), &new_drops);
    }
    EXPECT_EQ(old_drops, 1);
    EXPECT_EQ(new_drops, 1);
}

TEST(Error, PrefixedKeepsCodeKindAndCause) {
    int drops = 0;
    {
        Error outer(ErrorCode::bad_argument, "");
        {
            Error inner(ErrorCode::producer_failed, ErrorKind::value, "raised");
            inner.set_cause(&drops, count_drop);
            outer = inner.prefixed("f(): ").prefixed("module ");
        }
        EXPECT_STREQ(outer.what(), "module f(): raised");
        EXPECT_EQ(outer.code(), ErrorCode::producer_failed);
        EXPECT_EQ(outer.kind(), ErrorKind::value);
        EXPECT_EQ(outer.cause(), &drops);
        EXPECT_EQ(drops, 0);
    }
    EXPECT_EQ(drops, 1);
}

TEST(Error, ANewCauseOfAPrefixedErrorLeavesTheOriginalsAlone) {
    int drops = 0, others = 0;
    Error inner(ErrorCode::producer_failed, "raised");
    inner.set_cause(&drops, count_drop);
    {
        Error outer = inner.prefixed("f(): ");
        outer.set_cause(&others, count_drop);
        EXPECT_EQ(inner.cause(), &drops);
    }
    EXPECT_EQ(others, 1);
    EXPECT_EQ(drops, 0);
}

TEST(Error, CopiesTravelBetweenThreads) {
    int drops = 0;
    {
        Error error(ErrorCode::producer_failed, "raised");
        error.set_cause(&drops, count_drop);
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([error] {
                for (int j = 0; j < 1000; ++j) Error(error).what();
            });
        for (auto& t : threads) t.join();
    }
    EXPECT_EQ(drops, 1);
}

}  // namespace
