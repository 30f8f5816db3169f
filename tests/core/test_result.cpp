// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/result.h>

#include <memory>
#include <string>

#include <gtest/gtest.h>

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Result;

namespace {

Result<int> good(int value) { return value; }
Result<int> bad() { return Error(ErrorCode::bad_layout, "bad"); }

TEST(Result, HoldsAValueOrAnError) {
    Result<int> r = good(3);
    EXPECT_TRUE(r);
    EXPECT_TRUE(r.has_value());
    EXPECT_EQ(*r, 3);
    EXPECT_EQ(r.value(), 3);
    EXPECT_EQ(good(4).value(), 4);
    EXPECT_EQ(bad().value_or(9), 9);
    EXPECT_EQ(good(3).value_or(9), 3);
    const Result<int> failed = bad();
    EXPECT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), ErrorCode::bad_layout);
    EXPECT_EQ(failed.value_or(1), 1);
}

TEST(Result, OnlyValueThrowsAndItThrowsTheError) {
    for (int i = 0; i < 2; ++i) try {
            Result<int> r = bad();
            i == 0 ? (void)r.value() : (void)bad().value();
            FAIL() << "value() of an error returned";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_layout);
            EXPECT_STREQ(e.what(), "bad");
        }
}

TEST(Result, MoveOnlyValues) {
    Result<std::unique_ptr<int>> r = std::make_unique<int>(5);
    std::unique_ptr<int> out = std::move(r).value();
    EXPECT_EQ(*out, 5);
    Result<std::unique_ptr<int>> other = Error(ErrorCode::overflow, "x");
    other = Result<std::unique_ptr<int>>(std::move(out));
    ASSERT_TRUE(other);
    EXPECT_EQ(**other, 5);
    EXPECT_EQ(*(std::move(other).and_then([](std::unique_ptr<int> p) { return Result<int>(*p); })), 5);
    static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
}

TEST(Result, CopiesAndAssignmentsAcrossBothStates) {
    auto value = std::make_shared<int>(1);
    {
        Result<std::shared_ptr<int>> a = value, b = Error(ErrorCode::read_only, "no");
        Result<std::shared_ptr<int>> c = a, d = b;
        EXPECT_EQ(value.use_count(), 3);
        a = b;
        EXPECT_FALSE(a);
        EXPECT_EQ(value.use_count(), 2);
        b = c;
        ASSERT_TRUE(b);
        EXPECT_EQ(value.use_count(), 3);
        auto& self = b;
        b = self;
        EXPECT_EQ(value.use_count(), 3);
        b = std::move(self);
        EXPECT_EQ(*b, value);
        EXPECT_FALSE(d);
    }
    EXPECT_EQ(value.use_count(), 1);
}

TEST(Result, AndThen) {
    const auto half = [](int x) -> Result<int> {
        if (x % 2 != 0) return Error(ErrorCode::bad_argument, "odd");
        return x / 2;
    };
    EXPECT_EQ(*good(8).and_then(half).and_then(half), 2);
    EXPECT_EQ(good(6).and_then(half).and_then(half).error().code(), ErrorCode::bad_argument);
    int calls = 0;
    const Result<int> failed = bad();
    EXPECT_EQ(failed.and_then([&](int) { return ++calls, good(1); }).error().code(), ErrorCode::bad_layout);
    EXPECT_EQ(calls, 0);
}

TEST(Result, Transform) {
    EXPECT_EQ(*good(3).transform([](int x) { return std::to_string(x); }), "3");
    EXPECT_STREQ(bad().transform([](int x) { return x; }).error().what(), "bad");
    int seen = 0;
    Result<void> done = good(3).transform([&](int x) { seen = x; });
    EXPECT_TRUE(done);
    EXPECT_EQ(seen, 3);
    Result<int> changeable = good(1);
    EXPECT_EQ(*changeable.transform([](int& x) { return x += 1; }), 2);
    EXPECT_EQ(*changeable, 2);
}

TEST(Result, OrElse) {
    EXPECT_EQ(*bad().or_else([](const Error&) -> Result<int> { return 7; }), 7);
    EXPECT_EQ(*good(1).or_else([](const Error&) -> Result<int> { return 7; }), 1);
    const Result<int> failed = bad();
    EXPECT_STREQ(failed.or_else([](const Error& e) -> Result<int> { return e.prefixed("very "); }).error().what(),
                 "very bad");
    EXPECT_STREQ(bad().transform_error([](Error e) { return e.prefixed("f: "); }).error().what(), "f: bad");
}

TEST(Result, OfNothing) {
    Result<void> fine;
    EXPECT_TRUE(fine);
    fine.value();
    Result<void> failed = Error(ErrorCode::bad_device, "gone");
    EXPECT_FALSE(failed);
    EXPECT_THROW(failed.value(), Error);
    Result<void> copy = failed;
    EXPECT_EQ(copy.error().code(), ErrorCode::bad_device);
    EXPECT_EQ(*fine.and_then([] { return good(2); }), 2);
    EXPECT_EQ(failed.and_then([] { return good(2); }).error().code(), ErrorCode::bad_device);
    EXPECT_EQ(*fine.transform([] { return 4; }), 4);
    EXPECT_TRUE(failed.or_else([](const Error&) { return Result<void>(); }));
    fine = std::move(failed);
    EXPECT_FALSE(fine);
}

TEST(Result, FailReplacesTheValue) {
    auto value = std::make_shared<int>(1);
    Result<std::shared_ptr<int>> r = value;
    r.fail(Error(ErrorCode::needs_copy, "late"));
    EXPECT_FALSE(r);
    EXPECT_EQ(value.use_count(), 1);
    r.fail(Error(ErrorCode::overflow, "later"));
    EXPECT_EQ(r.error().code(), ErrorCode::overflow);
}

TEST(Result, KeepsTheErrorsCauseAlive) {
    int drops = 0;
    {
        Error error(ErrorCode::producer_failed, "raised");
        error.set_cause(&drops, [](void* p) { ++*static_cast<int*>(p); });
        Result<int> r = std::move(error);
        Result<std::string> other = r.transform([](int) { return std::string(); });
        r = good(1);
        EXPECT_EQ(drops, 0);
        EXPECT_EQ(other.error().cause(), &drops);
    }
    EXPECT_EQ(drops, 1);
}

}  // namespace
