// Processes that are killed or forked at the wrong moment: nothing is left behind or used again too soon.
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "support/memory.h"

using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::Pool;
namespace shared = isthmus::shared;

namespace {

constexpr std::int64_t large = 32 << 20;

/// Whether any process has a descriptor of the object.
bool exists(shared::impl::Identity identity) {
    DIR* processes = ::opendir("/proc");
    bool found = false;
    while (const dirent* process = ::readdir(processes)) {
        const std::string folder = std::string("/proc/") + process->d_name + "/fd";
        DIR* files = ::opendir(folder.c_str());
        if (files == nullptr) continue;
        while (const dirent* file = ::readdir(files)) {
            struct stat status{};
            if (::stat((folder + "/" + file->d_name).c_str(), &status) == 0)
                found |= status.st_dev == identity.device && status.st_ino == identity.inode;
        }
        ::closedir(files);
    }
    ::closedir(processes);
    return found;
}

/// A sender that is killed at `state`: its segment's identity comes over a pipe before.
struct Victim {
    int told[2];
    Victim() { EXPECT_EQ(::pipe(told), 0); }
    ~Victim() {
        ::close(told[0]);
        ::close(told[1]);
    }
    void tell(const shared::Segment& segment) const {
        struct stat status{};
        ::fstat(segment.descriptor(), &status);
        const shared::impl::Identity identity{status.st_dev, status.st_ino};
        EXPECT_EQ(::write(told[1], &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
    }
    shared::impl::Identity heard() const {
        shared::impl::Identity identity;
        EXPECT_EQ(::read(told[0], &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
        return identity;
    }
};

TEST(Lives, ASenderKilledBeforeItSendsLeavesNothing) {
    Victim victim;
    test::Child sender([&] {
        const shared::Segment segment = shared::Segment::create(large).value();
        victim.tell(segment);
        for (;;) std::memset(segment.data(), 1, segment.size());
        return 0;
    });
    const auto identity = victim.heard();
    EXPECT_TRUE(exists(identity));
    sender.kill();
    EXPECT_FALSE(exists(identity));
}

TEST(Lives, ASenderKilledWithTheMessageUnderWayIsNotMissed) {
    Victim victim;
    test::Sockets sockets;
    test::Child sender([&] {
        const shared::Segment segment = shared::Segment::create(large).value();
        const Tensor t = segment.tensor({large}, isthmus::uint8).value();
        test::element<char>(t, large - 1) = 'z';
        if (!shared::send(sockets[0], t, Access::read_only)) return 1;
        victim.tell(segment);
        ::pause();
        return 0;
    });
    const auto identity = victim.heard();
    sender.kill();
    sockets.close(0);
    {
        const Tensor t = shared::receive(sockets[1]).value();
        EXPECT_EQ(test::element<char>(t, large - 1), 'z');
        EXPECT_EQ(shared::receive(sockets[1]).error().code(), isthmus::ErrorCode::peer_closed);
        EXPECT_EQ(test::element<char>(t, large - 1), 'z');
    }
    EXPECT_FALSE(exists(identity));
}

TEST(Lives, BothKilledWithTheMessageUnderWayLeaveNothing) {
    Victim victim;
    auto sockets = std::make_unique<test::Sockets>();
    test::Child sender([&] {
        const shared::Segment segment = shared::Segment::create(large).value();
        if (!shared::send((*sockets)[0], segment.tensor({large}, isthmus::uint8).value(), Access::read_only)) return 1;
        victim.tell(segment);
        ::pause();
        return 0;
    });
    test::Child receiver([&] {
        ::pause();
        return 0;
    });
    sockets.reset();
    const auto identity = victim.heard();
    sender.kill();
    receiver.kill();
    EXPECT_FALSE(exists(identity));
}

TEST(Lives, AReceiverKilledWhileItReadsIsNotNoticed) {
    test::Sockets sockets;
    const shared::Segment segment = shared::Segment::create(large).value();
    const Tensor t = segment.tensor({large}, isthmus::uint8).value();
    test::Child receiver([&] {
        const Tensor got = shared::receive(sockets[1]).value();
        test::signal(sockets[1]);
        volatile int sum = 0;
        for (;;)
            for (std::int64_t i = 0; i < large; i += 4096) sum = sum + test::element<char>(got, i);
        return 0;
    });
    ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
    ASSERT_TRUE(test::await(sockets[0]));
    receiver.kill();
    std::memset(t.data(), 7, large);
    EXPECT_EQ(test::element<char>(t, large - 1), 7);
}

TEST(Lives, ASenderKilledWhileTheReceiverReadsChangesNothing) {
    test::Sockets sockets;
    test::Child sender([&] {
        Pool pool;
        const Tensor t = pool.empty({large}, isthmus::uint8).value();
        std::memset(t.data(), 3, large);
        if (!shared::send(sockets[0], t, Access::copy_on_write)) return 1;
        ::pause();
        return 0;
    });
    const Tensor t = shared::receive(sockets[1]).value();
    sender.kill();
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < large; ++i) sum += test::element<char>(t, i);
    EXPECT_EQ(sum, 3 * large);
    test::element<char>(t) = 4;
}

TEST(Lives, ARelayKilledLeavesTheLastReceiverItsMemory) {
    Pool pool({.limit = 1 << 20});
    test::Sockets first, second;
    test::Child relay([&] {
        const Tensor t = shared::receive(first[1]).value();
        if (!shared::send(second[0], t, Access::read_only)) return 1;
        test::signal(first[1]);
        ::pause();
        return 0;
    });
    {
        const Tensor t = pool.empty({1 << 20}, isthmus::uint8).value();
        std::memset(t.data(), 9, 1 << 20);
        ASSERT_TRUE(shared::send(first[0], t, Access::read_only));
    }
    ASSERT_TRUE(test::await(first[0]));
    relay.kill();
    {
        const Tensor t = shared::receive(second[1]).value();
        EXPECT_FALSE(pool.empty({1 << 20}, isthmus::uint8)) << "still lent";
        EXPECT_EQ(test::element<char>(t, 12345), 9);
    }
    EXPECT_TRUE(pool.empty({1 << 20}, isthmus::uint8));
}

TEST(Lives, AForkedChildThatDropsTheLastViewLeavesItsParentsLease) {
    Pool pool({.limit = 1 << 20});
    test::Sockets sockets;
    ASSERT_TRUE(shared::send(sockets[0], pool.empty({1 << 20}, isthmus::uint8).value(), Access::read_only));
    Tensor got = shared::receive(sockets[1]).value();
    test::Child child([&] {
        got = Tensor();
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_FALSE(pool.empty({1}, isthmus::uint8)) << "the parent still reads it";
    got = Tensor();
    EXPECT_TRUE(pool.empty({1}, isthmus::uint8));
}

TEST(Lives, AParentThatDropsTheLastViewLeavesItsForkedChildsLease) {
    Pool pool({.limit = 1 << 20});
    test::Sockets sockets, talk;
    ASSERT_TRUE(shared::send(sockets[0], pool.empty({1 << 20}, isthmus::uint8).value(), Access::read_only));
    Tensor got = shared::receive(sockets[1]).value();
    test::Child child([&] {
        if (!test::await(talk[1])) return 1;
        test::signal(talk[1]);
        ::pause();
        return 0;
    });
    got = Tensor();
    test::signal(talk[0]);
    ASSERT_TRUE(test::await(talk[0]));
    EXPECT_FALSE(pool.empty({1}, isthmus::uint8)) << "the child has the view too";
    child.kill();
    EXPECT_TRUE(pool.empty({1}, isthmus::uint8));
}

TEST(Lives, AForkedChildKeepsWhatItsParentMade) {
    Pool pool({.limit = 1 << 20});
    test::Sockets talk;
    Tensor t = pool.empty({1 << 20}, isthmus::uint8).value();
    std::memset(t.data(), 5, 1 << 20);
    test::Child child([&] {
        if (!test::await(talk[1])) return 1;
        for (std::int64_t i = 0; i < 1 << 20; i += 4096)
            if (test::element<char>(t, i) != 5) return 2;
        test::signal(talk[1]);
        ::pause();
        return 0;
    });
    t = Tensor();
    EXPECT_FALSE(pool.empty({1}, isthmus::uint8)) << "the child inherited it";
    test::signal(talk[0]);
    ASSERT_TRUE(test::await(talk[0]));
    child.kill();
    EXPECT_TRUE(pool.empty({1}, isthmus::uint8));
}

TEST(Lives, MemoryMovesThoughAForkedChildHasItToo) {
    Pool pool;
    test::Sockets sockets;
    const Tensor t = pool.empty({1024}, isthmus::int32).value();
    test::element<int>(t) = 1;
    test::Child child([&] {
        const Tensor got = shared::receive(sockets[1]).value();
        if (got.read_only() || test::element<int>(got) != 1) return 1;
        test::element<int>(got) = 2;
        return test::element<int>(t) == 1 ? 0 : 2;  // what was inherited stays where it was
    });
    ASSERT_TRUE(shared::send(sockets[0], t, Access::shared));
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(test::element<int>(t), 2);
}

TEST(Lives, AForkedChildHasItsOwnPool) {
    Pool pool;
    const Tensor mine = pool.empty({1024}, isthmus::int32).value();
    {
        const Tensor other = pool.empty({1024}, isthmus::int32).value();
    }
    test::element<int>(mine) = 1;
    test::Sockets sockets;
    test::Child child([&] {
        // What is free in the parent's pool is not the child's to hand out.
        const Tensor t = pool.empty({1024}, isthmus::int32).value();
        for (int i = 0; i < 1024; ++i) test::element<int>(t, i) = -1;
        if (!shared::send(sockets[1], t, Access::read_only)) return 1;
        return shared::send(sockets[1], mine, Access::read_only) ? 0 : 2;
    });
    std::vector<Tensor> held;
    for (int i = 0; i < 100; ++i) {
        held.push_back(pool.empty({1024}, isthmus::int32).value());
        for (int j = 0; j < 1024; ++j) test::element<int>(held.back(), j) = i;
    }
    const Tensor theirs = shared::receive(sockets[0]).value(), back = shared::receive(sockets[0]).value();
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(test::element<int>(theirs, 1023), -1);
    EXPECT_EQ(test::element<int>(back), 1) << "the parent's own memory, sent by its child";
    test::element<int>(mine) = 2;
    EXPECT_EQ(test::element<int>(back), 2);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(test::element<int>(held[static_cast<std::size_t>(i)], 1023), i);
}

TEST(Lives, ManyExchangesLeaveMemoryAndDescriptorsAsTheyWere) {
    test::Sockets sockets;
    Pool pool({.limit = 8 << 20});
    const auto exchange = [&](int i) {
        const Tensor t =
            pool.empty({1000 + i % 5000}, isthmus::int32, i % 3 == 0 ? Access::shared : Access::read_only).value();
        const Access access = i % 3 == 0 ? Access::shared : i % 3 == 1 ? Access::copy_on_write : Access::read_only;
        ASSERT_TRUE(shared::send(sockets[0], t, access));
        ASSERT_TRUE(shared::receive(sockets[1]));
    };
    for (int i = 0; i < 100; ++i) exchange(i);
    const int descriptors = test::open_descriptors(), mapped = test::mappings_named("memfd:isthmus");
    const auto reserved = pool.stats().reserved;
    for (int i = 0; i < 20000; ++i) exchange(i);
    EXPECT_EQ(test::open_descriptors(), descriptors);
    EXPECT_EQ(test::mappings_named("memfd:isthmus"), mapped);
    EXPECT_EQ(pool.stats().reserved, reserved);
}

}  // namespace
