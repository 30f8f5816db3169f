// Pools: few descriptors for many tensors, memory that is used again as soon as the last view is gone, and not before.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "support/memory.h"

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::Pool;
namespace shared = isthmus::shared;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

TEST(Pool, TenThousandTensorsNeedFewDescriptorsHereAndThere) {
    test::Sockets sockets;
    const int before = test::open_descriptors();
    test::Child child([&] {
        std::vector<Tensor> held;
        const int mine = test::open_descriptors();
        for (int i = 0; i < 10000; ++i) held.push_back(shared::receive(sockets[1]).value());
        const int used = test::open_descriptors() - mine;
        if (used > 64) return fprintf(stderr, "%d descriptors\n", used), 1;
        for (int i = 0; i < 10000; ++i)
            if (test::element<std::int64_t>(held[static_cast<std::size_t>(i)]) != i) return 2;
        return 0;
    });
    Pool pool;
    std::vector<Tensor> held;
    for (int i = 0; i < 10000; ++i) {
        held.push_back(pool.empty({128}, isthmus::int64).value());
        test::element<std::int64_t>(held.back()) = i;
        ASSERT_TRUE(shared::send(sockets[0], held.back(), Access::read_only));
    }
    EXPECT_LE(test::open_descriptors() - before, 64);
    EXPECT_EQ(child.wait(), 0);
    std::set<void*> addresses;
    for (const Tensor& t : held) addresses.insert(t.data());
    EXPECT_EQ(addresses.size(), held.size());
}

TEST(Pool, LargerTensorsNeedFewToo) {
    Pool pool;
    std::vector<Tensor> held;
    for (int i = 0; i < 300; ++i) held.push_back(pool.empty({mebibyte}, isthmus::uint8).value());
    EXPECT_LE(pool.stats().segments, 64u);
    EXPECT_LE(pool.stats().reserved, std::size_t{300 * mebibyte} * 3 / 2);
}

TEST(Pool, MemoryIsUsedAgainWithTheLastViewAnywhere) {
    Pool pool({.limit = 4 * mebibyte});
    test::Sockets sockets;
    void* first = nullptr;
    {
        const Tensor t = pool.empty({mebibyte}, isthmus::uint8).value();
        first = t.data();
        ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    }
    const Tensor second = pool.empty({3 * mebibyte}, isthmus::uint8).value();
    EXPECT_EQ(pool.empty({mebibyte}, isthmus::uint8).error().code(), ErrorCode::out_of_memory) << "a message holds it";
    {
        const Tensor got = shared::receive(sockets[1]).value();
        EXPECT_EQ(pool.empty({mebibyte}, isthmus::uint8).error().code(), ErrorCode::out_of_memory)
            << "a receiver holds it";
        EXPECT_EQ(pool.stats().lent, 1u);
    }
    const Tensor third = pool.empty({mebibyte}, isthmus::uint8).value();
    EXPECT_EQ(third.data(), first);
    EXPECT_EQ(pool.stats().lent, 0u);
}

TEST(Pool, AMessageThatNobodyTakesGivesItsMemoryBack) {
    Pool pool({.limit = mebibyte});
    {
        test::Sockets sockets;
        ASSERT_TRUE(shared::send(sockets[0], pool.empty({mebibyte}, isthmus::uint8).value(), Access::read_only));
        EXPECT_FALSE(pool.empty({mebibyte}, isthmus::uint8));
    }
    EXPECT_TRUE(pool.empty({mebibyte}, isthmus::uint8));
}

TEST(Pool, AKilledReceiverGivesItsMemoryBack) {
    Pool pool({.limit = 2 * mebibyte});
    test::Sockets sockets;
    test::Child child([&] {
        const Tensor one = shared::receive(sockets[1]).value(),
                     two = shared::receive(sockets[1], Access::read_only).value();
        test::signal(sockets[1]);
        ::pause();
        return 0;
    });
    for (int i = 0; i < 2; ++i)
        ASSERT_TRUE(shared::send(sockets[0], pool.empty({mebibyte}, isthmus::uint8).value(), Access::copy_on_write));
    ASSERT_TRUE(test::await(sockets[0]));
    EXPECT_FALSE(pool.empty({mebibyte}, isthmus::uint8));
    child.kill();
    EXPECT_TRUE(pool.empty({2 * mebibyte}, isthmus::uint8));
}

TEST(Pool, ASlowReceiverIsWaitedFor) {
    Pool pool({.limit = 4 * mebibyte});
    test::Sockets sockets;
    test::Child child([&] {
        std::int64_t sum = 0;
        for (int i = 0; i < 60; ++i) {
            const Tensor t = shared::receive(sockets[1]).value();
            ::usleep(300);
            for (std::int64_t j = 0; j < t.numel(); j += 4096)
                if (test::element<std::uint8_t>(t, j) != i) return 1;
            sum += test::element<std::uint8_t>(t);
        }
        return sum == 59 * 60 / 2 ? 0 : 2;
    });
    for (int i = 0; i < 60; ++i) {
        const Tensor t = pool.empty({mebibyte}, isthmus::uint8, Access::read_only, {.timeout_ms = 20000}).value();
        std::memset(t.data(), i, static_cast<std::size_t>(t.nbytes()));
        ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    }
    EXPECT_EQ(child.wait(), 0);
    EXPECT_LE(pool.stats().reserved, std::size_t{4 * mebibyte});
}

TEST(Pool, ASmallLimitHasRoomForBothKinds) {
    for (const std::size_t limit : {std::size_t{64} << 10, std::size_t{mebibyte}, std::size_t{3} * mebibyte}) {
        Pool pool({.limit = limit});
        const auto make = [&](Access access) { return pool.empty({16}, isthmus::uint8, access, {.timeout_ms = 0}); };
        const auto sealed = make(Access::read_only), writable = make(Access::shared);
        EXPECT_TRUE(sealed);
        EXPECT_TRUE(writable) << limit << ": " << writable.error().what();
        const auto most = static_cast<std::int64_t>(limit / 2);
        EXPECT_TRUE(pool.empty({most}, isthmus::uint8, Access::read_only, {.timeout_ms = 0}));
        EXPECT_LE(pool.stats().reserved, limit);
    }
}

TEST(Pool, AWaitEnds) {
    Pool pool({.limit = mebibyte});
    const Tensor all = pool.empty({mebibyte}, isthmus::uint8).value();
    EXPECT_EQ(pool.empty({1}, isthmus::uint8, Access::read_only, {.timeout_ms = 10}).error().code(),
              ErrorCode::timed_out);
    EXPECT_EQ(pool.empty({2 * mebibyte}, isthmus::uint8, Access::read_only, {.timeout_ms = -1}).error().code(),
              ErrorCode::out_of_memory)
        << "more than there will ever be";
}

TEST(Pool, OneSlotReceivedTwiceIsHeldUntilBothAreGone) {
    Pool pool({.limit = mebibyte});
    test::Sockets sockets;
    Tensor one, two, three;
    {
        const Tensor t = pool.empty({mebibyte}, isthmus::uint8).value();
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(shared::send(sockets[0], t, Access::copy_on_write));
        one = shared::receive(sockets[1], Access::read_only).value();
        two = shared::receive(sockets[1], Access::read_only).value();
        three = shared::receive(sockets[1]).value();
        EXPECT_EQ(one.data(), two.data()) << "one mapping";
        EXPECT_NE(one.data(), three.data()) << "a private one";
    }
    for (Tensor* last : {&two, &one, &three}) {
        EXPECT_FALSE(pool.empty({1}, isthmus::uint8));
        *last = Tensor();
    }
    EXPECT_TRUE(pool.empty({1}, isthmus::uint8));
}

TEST(Pool, UnusedMemoryGoesBack) {
    const int before = test::open_descriptors();
    Pool pool({.idle_limit = 2 * mebibyte});
    {
        std::vector<Tensor> held;
        for (int i = 0; i < 8; ++i) held.push_back(pool.empty({mebibyte}, isthmus::uint8).value());
        EXPECT_GE(pool.stats().reserved, std::size_t{8 * mebibyte});
    }
    EXPECT_LE(pool.stats().reserved, std::size_t{2 * mebibyte});
    pool.trim();
    EXPECT_EQ(pool.stats().reserved, 0u);
    EXPECT_EQ(pool.stats().segments, 0u);
    EXPECT_EQ(test::open_descriptors(), before);
    EXPECT_EQ(test::mappings_named("memfd:isthmus"), 0);
}

TEST(Pool, TensorsOutliveIt) {
    Tensor late;
    {
        Pool pool;
        late = pool.empty({100}, isthmus::float32).value();
    }
    test::element<float>(late, 99) = 3;
    test::Sockets sockets;
    ASSERT_TRUE(shared::send(sockets[0], late, Access::read_only));
    late = Tensor();
    EXPECT_EQ(test::element<float>(shared::receive(sockets[1]).value(), 99), 3);
}

TEST(Pool, SizesOfEveryKindFitTogether) {
    Pool pool;
    std::vector<Tensor> held;
    unsigned state = 1;
    for (int i = 0; i < 3000; ++i) {
        state = state * 1664525u + 1013904223u;
        if (held.size() > 40) {
            std::swap(held[state % held.size()], held.back());
            const auto* bytes = static_cast<const unsigned char*>(held.back().data());
            const std::int64_t count = held.back().numel();
            ASSERT_EQ(bytes[0], static_cast<unsigned char>(count));
            ASSERT_EQ(bytes[count - 1], static_cast<unsigned char>(count));
            held.pop_back();
        }
        const std::int64_t count = 1 + static_cast<std::int64_t>(state >> 8) % 100000;
        held.push_back(pool.empty({count}, isthmus::uint8).value());
        std::memset(held.back().data(), static_cast<int>(count & 255), static_cast<std::size_t>(count));
    }
    held.clear();
    EXPECT_EQ(pool.stats().free, pool.stats().reserved);
    EXPECT_LE(pool.stats().reserved, std::size_t{16 * mebibyte});
}

}  // namespace
