// Tensors from one process to another: what arrives, and who sees whose writes.
// SPDX-License-Identifier: Apache-2.0
#include "support/memory.h"

using isthmus::Device;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::shared::Access;
namespace shared = isthmus::shared;

namespace {

Tensor numbers(std::int64_t count, Access access = Access::read_only) {
    Tensor t = shared::empty({count}, isthmus::float32, access).value();
    for (std::int64_t i = 0; i < count; ++i) test::element<float>(t, i) = static_cast<float>(i);
    return t;
}

class Between : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sockets, Between, testing::Values(SOCK_SEQPACKET, SOCK_STREAM),
                         [](const auto& kind) { return kind.param == SOCK_STREAM ? "Stream" : "Packets"; });

TEST_P(Between, ReadOnlyIsTheSamePagesAndCannotBeWritten) {
    test::Sockets sockets(GetParam());
    test::Child child([&] {
        const Tensor t = shared::receive(sockets[1]).value();
        if (!t.read_only() || t.numel() != 5000 || test::element<float>(t, 4999) != 4999) return 1;
        test::signal(sockets[1]);
        if (!test::await(sockets[1])) return 2;
        if (test::element<float>(t, 7) != -7) return 3;  // the sender goes on writing
        std::signal(SIGSEGV, SIG_DFL);                   // a sanitizer would make a report of it
        test::element<float>(t, 0) = 1;
        return 4;  // never reached
    });
    const Tensor t = numbers(5000);
    ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    ASSERT_TRUE(test::await(sockets[0]));
    test::element<float>(t, 7) = -7;
    test::signal(sockets[0]);
    EXPECT_EQ(child.wait(), 1000 + SIGSEGV);
    EXPECT_EQ(test::element<float>(t, 0), 0);
}

TEST_P(Between, CopyOnWriteKeepsItsWritesToItself) {
    test::Sockets sockets(GetParam());
    test::Child child([&] {
        const Tensor t = shared::receive(sockets[1]).value(), other = shared::receive(sockets[1]).value();
        if (t.read_only() || other.read_only()) return 1;
        test::element<float>(t, 3) = 100;
        if (test::element<float>(other, 3) != 3) return 2;
        test::signal(sockets[1]);
        if (!test::await(sockets[1])) return 3;
        return test::element<float>(t, 3) == 100 ? 0 : 4;
    });
    const Tensor t = numbers(10);
    ASSERT_TRUE(shared::send(sockets[0], t, Access::copy_on_write));
    ASSERT_TRUE(shared::send(sockets[0], t, Access::copy_on_write));
    ASSERT_TRUE(test::await(sockets[0]));
    EXPECT_EQ(test::element<float>(t, 3), 3);
    test::element<float>(t, 3) = 5;
    test::signal(sockets[0]);
    EXPECT_EQ(child.wait(), 0);
}

TEST_P(Between, SharedIsWrittenByBoth) {
    test::Sockets sockets(GetParam());
    test::Child child([&] {
        const Tensor t = shared::receive(sockets[1]).value();
        if (t.read_only()) return 1;
        test::element<float>(t, 3) = 100;
        test::signal(sockets[1]);
        if (!test::await(sockets[1])) return 2;
        return test::element<float>(t, 4) == 50 ? 0 : 3;
    });
    const Tensor t = numbers(10, Access::shared);
    ASSERT_TRUE(shared::send(sockets[0], t, Access::shared));
    ASSERT_TRUE(test::await(sockets[0]));
    EXPECT_EQ(test::element<float>(t, 3), 100);
    test::element<float>(t, 4) = 50;
    test::signal(sockets[0]);
    EXPECT_EQ(child.wait(), 0);
}

TEST_P(Between, TheReceiverMayTakeLessAndNotMore) {
    test::Sockets sockets(GetParam());
    const Tensor t = numbers(10, Access::shared), sealed = numbers(10);
    for (const Access less : {Access::read_only, Access::copy_on_write}) {
        ASSERT_TRUE(shared::send(sockets[0], t, Access::shared));
        const Tensor got = shared::receive(sockets[1], less).value();
        EXPECT_EQ(got.read_only(), less == Access::read_only);
        test::element<float>(t, 1) = 11;
        EXPECT_EQ(test::element<float>(got, 1), 11);
        if (less == Access::copy_on_write) test::element<float>(got, 1) = 12;
        EXPECT_EQ(test::element<float>(t, 1), 11);
    }
    ASSERT_TRUE(shared::send(sockets[0], sealed, Access::read_only));
    auto more = shared::receive(sockets[1], Access::copy_on_write);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code(), ErrorCode::read_only);
    EXPECT_STREQ(more.error().what(), "argument 'access': 'copy_on_write', but the sender allows 'read_only'");
    ASSERT_TRUE(shared::send(sockets[0], sealed, Access::read_only)) << "what was refused does not stay in the way";
    EXPECT_TRUE(shared::receive(sockets[1]));
}

TEST_P(Between, ManyMessagesStayApart) {
    test::Sockets sockets(GetParam());
    std::vector<Tensor> sent;
    for (int i = 0; i < 60; ++i) {
        std::vector<std::int64_t> shape(static_cast<std::size_t>(i), 1);  // messages of every length
        shape.push_back(4);
        sent.push_back(shared::empty(shape, isthmus::int32).value());
        test::element<std::int32_t>(sent.back(), 3) = i;
        ASSERT_TRUE(shared::send(sockets[0], sent.back(), Access::read_only));
    }
    for (int i = 0; i < 60; ++i) {
        const Tensor t = shared::receive(sockets[1]).value();
        EXPECT_EQ(t.ndim(), i + 1);
        EXPECT_EQ(test::element<std::int32_t>(t, 3), i);
    }
}

TEST(Transfer, ViewsCrossWithTheirStrides) {
    test::Sockets sockets;
    const Tensor t = numbers(24);
    float* data = &test::element<float>(t);
    const Tensor views[] = {
        t.as_strided(data + 4, {3, 2}, {4, 2}, isthmus::float32),
        t.as_strided(data + 23, {24}, {-1}, isthmus::float32),
        t.as_strided(data, {2, 3, 4}, {1, 2, 6}, isthmus::float32),
        t.as_strided(data + 5, {4, 3}, {0, 1}, isthmus::float32),
        t.as_strided(data + 2, {}, {}, isthmus::float32),
        t.as_strided(data, {0, 3}, {3, 1}, isthmus::float32),
    };
    for (const Tensor& view : views) {
        ASSERT_TRUE(shared::send(sockets[0], view, Access::read_only));
        const Tensor got = shared::receive(sockets[1]).value();
        EXPECT_EQ(std::vector(got.shape().begin(), got.shape().end()),
                  std::vector(view.shape().begin(), view.shape().end()));
        EXPECT_EQ(std::vector(got.strides().begin(), got.strides().end()),
                  std::vector(view.strides().begin(), view.strides().end()));
        EXPECT_EQ(got.dtype(), isthmus::float32);
        if (got.numel() != 0) {
            EXPECT_EQ(test::element<float>(got), test::element<float>(view));
        }
    }
}

TEST(Transfer, EveryDTypeCrosses) {
    test::Sockets sockets;
    for (const isthmus::DType dtype : {isthmus::boolean, isthmus::bfloat16, isthmus::float8_e4m3fn, isthmus::complex128,
                                       isthmus::float4_e2m1fn, isthmus::DType(kDLFloat, 32, 4)}) {
        const Tensor t = shared::empty({3, 5}, dtype).value();
        std::memset(t.data(), 0x5a, static_cast<std::size_t>(t.nbytes()));
        ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only)) << dtype.name();
        const Tensor got = shared::receive(sockets[1]).value();
        EXPECT_EQ(got.dtype(), dtype);
        EXPECT_EQ(std::memcmp(got.data(), t.data(), static_cast<std::size_t>(t.nbytes())), 0);
    }
    const Tensor padded = Tensor::own(std::vector<std::uint8_t>(6), {6});
    Tensor copy = shared::share(padded).value();
    EXPECT_EQ(copy.dtype(), isthmus::uint8);
}

TEST(Transfer, WhatIsSharedKeepsDenseStridesAndNothingElse) {
    const Tensor plain = Tensor::own(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
    float* data = &test::element<float>(plain);
    const Tensor turned = shared::share(plain.as_strided(data, {3, 2}, {1, 3}, isthmus::float32)).value();
    EXPECT_EQ(turned.strides()[0], 1);
    EXPECT_EQ(turned.strides()[1], 3);
    EXPECT_EQ(test::element<float>(turned, 5), 5);
    const Tensor gaps = shared::share(plain.as_strided(data, {2, 2}, {3, 2}, isthmus::float32)).value();
    EXPECT_TRUE(gaps.is_contiguous());
    EXPECT_EQ(test::element<float>(gaps, 3), 5);
    const Tensor backwards = shared::share(plain.as_strided(data + 5, {6}, {-1}, isthmus::float32)).value();
    EXPECT_EQ(test::element<float>(backwards, 0), 5);
    EXPECT_EQ(backwards.strides()[0], -1);
    EXPECT_EQ(test::element<float>(backwards, -5), 0);
    const Tensor repeated = shared::share(plain.as_strided(data + 1, {2, 2}, {0, 1}, isthmus::float32)).value();
    EXPECT_EQ(test::element<float>(repeated, 2), 1);
    EXPECT_TRUE(shared::is_shared(gaps));
    EXPECT_FALSE(shared::is_shared(plain));
    EXPECT_EQ(shared::share(gaps).value().data(), gaps.data()) << "shared already";
    const Tensor none = shared::share(Tensor::own(std::vector<float>{}, {0, 3})).value();
    EXPECT_EQ(none.numel(), 0);
}

TEST(Transfer, MemoryOfAnotherKindIsRefused) {
    test::Sockets sockets;
    const Tensor plain = Tensor::own(std::vector<float>(4), {4});
    auto sent = shared::send(sockets[0], plain, Access::read_only);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code(), ErrorCode::needs_copy);
    EXPECT_EQ(shared::send(sockets[0], Tensor(), Access::read_only).error().code(), ErrorCode::bad_argument);
    float element = 0;
    const Tensor on_device = Tensor::wrap(&element, {1}, {}, isthmus::float32, Device::cuda(0), 0);
    EXPECT_EQ(shared::send(sockets[0], on_device, Access::read_only).error().code(), ErrorCode::bad_device);
    EXPECT_EQ(shared::send(sockets[0], numbers(3).as_read_only(), Access::shared).error().code(), ErrorCode::read_only);
    EXPECT_EQ(shared::send(sockets[0], numbers(3), static_cast<Access>(7)).error().code(), ErrorCode::bad_argument);
    // A view that begins in one slot and ends in another.
    const Tensor whole = numbers(4096);
    const Tensor beyond = whole.as_strided(whole.data(), {1 << 14}, {1}, isthmus::float32);
    EXPECT_EQ(shared::send(sockets[0], beyond, Access::read_only).error().code(), ErrorCode::needs_copy);
}

TEST(Transfer, OnlyUnixSocketsAreTaken) {
    const Tensor t = numbers(3);
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const int internet = ::socket(AF_INET, SOCK_STREAM, 0);
    int datagrams[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams), 0);
    for (const int wrong : {pipe[1], internet, datagrams[0], -1, 100000}) {
        EXPECT_EQ(shared::send(wrong, t, Access::read_only).error().code(), ErrorCode::bad_argument) << wrong;
        EXPECT_EQ(shared::receive(wrong).error().code(), ErrorCode::bad_argument) << wrong;
    }
    for (const int descriptor : {pipe[0], pipe[1], internet, datagrams[0], datagrams[1]}) ::close(descriptor);
}

TEST_P(Between, TheEndIsThePeersOnly) {
    test::Sockets sockets(GetParam());
    const Tensor t = numbers(3);
    ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    sockets.close(0);
    EXPECT_TRUE(shared::receive(sockets[1])) << "what was sent before the end arrives";
    EXPECT_EQ(shared::receive(sockets[1]).error().code(), ErrorCode::peer_closed);
    EXPECT_EQ(shared::receive(sockets[1]).error().code(), ErrorCode::peer_closed);
    EXPECT_EQ(shared::send(sockets[1], t, Access::read_only).error().code(), ErrorCode::peer_closed);
}

TEST_P(Between, WaitsAsLongAsItMay) {
    test::Sockets sockets(GetParam());
    auto got = shared::receive(sockets[1], {}, {.timeout_ms = 5});
    EXPECT_EQ(got.error().code(), ErrorCode::timed_out);
    EXPECT_EQ(shared::receive(sockets[1], {}, {.timeout_ms = 0}).error().code(), ErrorCode::timed_out);
    const Tensor t = numbers(3);
    int sent = 0;
    for (; sent < 100000; ++sent) {
        auto done = shared::send(sockets[0], t, Access::read_only, {.timeout_ms = 0});
        if (done) continue;
        EXPECT_EQ(done.error().code(), ErrorCode::timed_out);
        break;
    }
    ASSERT_LT(sent, 100000) << "the socket never filled";
    for (int i = 0; i < sent; ++i) ASSERT_TRUE(shared::receive(sockets[1])) << i;
    EXPECT_EQ(shared::receive(sockets[1], {}, {.timeout_ms = 0}).error().code(), ErrorCode::timed_out);
}

TEST(Transfer, WhatArrivedIsSentOn) {
    test::Sockets first, second;
    test::Child relay([&] {
        const Tensor t = shared::receive(first[1]).value();
        if (shared::send(second[0], t, Access::shared)) return 1;  // it was allowed to read
        return shared::send(second[0], t.as_strided(&test::element<float>(t, 2), {2}, {1}, isthmus::float32),
                            Access::read_only)
                   ? 0
                   : 2;
    });
    {
        const Tensor t = numbers(10);
        ASSERT_TRUE(shared::send(first[0], t, Access::read_only));
        EXPECT_EQ(relay.wait(), 0);
    }
    const Tensor last = shared::receive(second[1]).value();
    EXPECT_EQ(test::element<float>(last, 1), 3) << "both others have dropped it";
}

TEST(Transfer, MemoryMovesToTheKindThatIsAskedFor) {
    test::Sockets sockets;
    const Tensor t = numbers(5000);
    void* const before = t.data();
    ASSERT_TRUE(shared::send(sockets[0], t, Access::shared));
    {
        const Tensor got = shared::receive(sockets[1]).value();
        EXPECT_EQ(t.data(), before);
        EXPECT_EQ(test::element<float>(got, 4999), 4999);
        test::element<float>(got, 1) = 8;
        EXPECT_EQ(test::element<float>(t, 1), 8);
        auto both = shared::send(sockets[0], t, Access::read_only);
        ASSERT_FALSE(both) << "somebody may write it now";
        EXPECT_EQ(both.error().code(), ErrorCode::read_only);
    }
    ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    const Tensor got = shared::receive(sockets[1]).value();
    test::element<float>(t, 2) = 9;
    EXPECT_EQ(test::element<float>(got, 1), 8);
    EXPECT_EQ(test::element<float>(got, 2), 9);
    EXPECT_EQ(shared::send(sockets[0], t, Access::shared).error().code(), ErrorCode::read_only);
}

TEST(Transfer, AMovedSlotIsUsedAgainAsItWas) {
    shared::Pool pool;
    test::Sockets sockets;
    void* where = nullptr;
    for (int round = 0; round < 4; ++round) {
        const Tensor t = pool.empty({1000}, isthmus::int32).value();
        if (round == 0) where = t.data();
        EXPECT_EQ(t.data(), where);
        for (int i = 0; i < 1000; ++i) test::element<std::int32_t>(t, i) = round * i;
        const Access access = round % 2 == 0 ? Access::shared : Access::read_only;
        ASSERT_TRUE(shared::send(sockets[0], t, access));
        const Tensor got = shared::receive(sockets[1]).value();
        EXPECT_EQ(got.read_only(), round % 2 == 1);
        test::element<std::int32_t>(t, 7) = -1;
        EXPECT_EQ(test::element<std::int32_t>(got, 7), -1);
        EXPECT_EQ(test::element<std::int32_t>(got, 999), round * 999);
    }
}

}  // namespace
