// What a peer can do and cannot: each sentence of the section Trust in docs/shared.md.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "support/memory.h"

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::Pool;
using isthmus::shared::impl::File;
using isthmus::shared::impl::Header;
namespace shared = isthmus::shared;

namespace {

/// Half of a pool's first segment: an eighth of this limit, beside which the rest is one more segment.
constexpr std::int64_t half = 1 << 19;
constexpr std::size_t limit = 16 * half;
constexpr std::int64_t rest_of_limit = 14 * half;

/// A sender whose pool is full, with two tensors in its first segment, a third party that has the first one's message,
/// and a receiver.
class ThirdParty : public testing::Test {
protected:
    ThirdParty()
        : first(pool.empty({half}, isthmus::uint8).value()),
          second(next()),
          rest(pool.empty({rest_of_limit}, isthmus::uint8).value()) {
        test::Sockets own;
        EXPECT_TRUE(shared::send(own[0], first, Access::read_only));
        raw = test::take(own[1]);
        std::memset(second.data(), 2, half);
    }
    Tensor next() { return pool.empty({half}, isthmus::uint8).value(); }
    Header header() const {
        Header h;
        std::memcpy(&h, raw.bytes.data(), sizeof h);
        return h;
    }
    /// What the receiver makes of the third party's message, changed.
    Tensor forwarded(const Header& h, std::optional<Access> access = {}) {
        std::vector<char> bytes = raw.bytes;
        std::memcpy(bytes.data(), &h, sizeof h);
        test::put(sockets[0], bytes, {raw.file.get()});
        return shared::receive(sockets[1], access).value();
    }
    Tensor from_sender() {
        EXPECT_TRUE(shared::send(sockets[0], second, Access::read_only));
        return shared::receive(sockets[1]).value();
    }
    /// The sender drops the second tensor: its memory may be used again only if the receiver has no view of it.
    bool is_used_again() {
        second = Tensor();
        return static_cast<bool>(pool.empty({half}, isthmus::uint8));
    }

    Pool pool{{.limit = limit}};
    test::Sockets sockets;
    Tensor first, second, rest;
    test::Raw raw;
};

TEST_F(ThirdParty, CannotEndALeaseByASlotThatReachesOverIt) {
    for (const bool before : {true, false}) {
        SCOPED_TRACE(before);
        Header wide = header();
        wide.slot_size *= 2;
        Tensor theirs, got;
        if (before) theirs = forwarded(wide);
        got = from_sender();
        if (!before) theirs = forwarded(wide);
        theirs = Tensor();
        EXPECT_FALSE(is_used_again());
        EXPECT_EQ(test::element<char>(got, half - 1), 2);
        got = Tensor();
        second = next();
        std::memset(second.data(), 2, half);
    }
}

TEST_F(ThirdParty, CannotEndALeaseByTheOpenFileThatItHasSent) {
    const Tensor theirs = forwarded(header());
    const Tensor got = from_sender();
    shared::impl::unlease(raw.file, 0, 2 * half);
    EXPECT_FALSE(is_used_again());
    EXPECT_EQ(test::element<char>(got, half - 1), 2);
}

TEST_F(ThirdParty, CannotChangeWhatAnothersTensorMayBeUsedFor) {
    Header h = header();
    h.access = static_cast<std::uint8_t>(Access::shared);
    const Tensor theirs = forwarded(h, Access::read_only);
    const Tensor got = from_sender();
    test::Sockets on;
    ASSERT_TRUE(shared::send(on[0], got, Access::read_only));
    EXPECT_EQ(test::element<char>(shared::receive(on[1]).value(), half - 1), 2);
    EXPECT_EQ(shared::send(on[0], got, Access::shared).error().code(), ErrorCode::read_only);
}

TEST_F(ThirdParty, CostsOneSegmentForEachSlotThatReachesOverOthers) {
    // The memory is the sender's own here, so that there are many slots.
    Pool large;
    std::vector<Tensor> made, held;
    for (int i = 0; i < 200; ++i) made.push_back(large.empty({1}, isthmus::uint8).value());
    test::Sockets own;
    EXPECT_TRUE(shared::send(own[0], made[0], Access::read_only));
    raw = test::take(own[1]);
    Header wide = header();
    wide.slot_size = wide.segment_size;
    const Tensor theirs = forwarded(wide);
    const int before = test::open_descriptors();
    for (const Tensor& one : made) {
        EXPECT_TRUE(shared::send(sockets[0], one, Access::read_only));
        held.push_back(shared::receive(sockets[1]).value());
    }
    EXPECT_LE(test::open_descriptors(), before + 1);
}

/// All that a process can do to take pages away from those who have them mapped.
void take_pages_away(const shared::Segment& segment) {
    const int file = segment.descriptor();
    const auto size = static_cast<off_t>(segment.size());
    (void)!::ftruncate(file, 0);
    (void)::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
    (void)::madvise(segment.data(), segment.size(), MADV_REMOVE);
    (void)::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE);
    const File again(::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_TRUNC | O_CLOEXEC));
    (void)::fallocate(again.get(), FALLOC_FL_COLLAPSE_RANGE, 0, size / 2);
}

TEST(Trust, NoReadOfReceivedMemoryFails) {
    for (const Access access : {Access::read_only, Access::copy_on_write, Access::shared}) {
        const shared::Segment segment = shared::Segment::create(half, access).value();
        std::memset(segment.data(), 5, half);
        test::Sockets sockets;
        ASSERT_TRUE(shared::send(sockets[0], segment.tensor({half}, isthmus::uint8).value(), access));
        const Tensor got = shared::receive(sockets[1]).value();
        take_pages_away(segment);
        const char last = test::element<char>(got, half - 1);
        EXPECT_EQ(last, access == Access::shared ? 0 : 5) << static_cast<int>(access);
    }
}

TEST(Trust, TheWholeSegmentCanBeRead) {
    Pool pool;
    const Tensor sent = pool.empty({1}, isthmus::uint8).value(), other = pool.empty({1}, isthmus::uint8).value();
    test::element<char>(other) = 9;
    test::Sockets sockets;
    ASSERT_TRUE(shared::send(sockets[0], sent, Access::read_only));
    const Tensor got = shared::receive(sockets[1]).value();
    EXPECT_EQ(static_cast<char*>(got.data())[static_cast<char*>(other.data()) - static_cast<char*>(sent.data())], 9);
    // The segment of another pool is another one.
    Pool apart;
    const Tensor elsewhere = apart.empty({1}, isthmus::uint8).value();
    ASSERT_TRUE(shared::send(sockets[0], elsewhere, Access::read_only));
    EXPECT_NE(shared::impl::identify(test::take(sockets[1]).file).inode, 0u);
    EXPECT_EQ(apart.stats().segments, 1u);
}

TEST(Trust, LeasesCanBeHeldForeverAndALimitHolds) {
    Pool pool({.limit = limit});
    Tensor sent = pool.empty({4096}, isthmus::uint8).value();
    const Tensor rest = pool.empty({rest_of_limit}, isthmus::uint8).value();
    test::Sockets sockets;
    ASSERT_TRUE(shared::send(sockets[0], sent, Access::read_only));
    const test::Raw raw = test::take(sockets[1]);
    ASSERT_TRUE(shared::impl::lease(raw.file, 0, 2 * half)) << "also of what it was not sent";
    sent = Tensor();
    EXPECT_EQ(pool.empty({half}, isthmus::uint8).value().numel(), half) << "what was never lent can be had";
    for (int i = 0; i < 3; ++i) {
        Tensor t = pool.empty({half}, isthmus::uint8).value_or(Tensor());
        if (!t) break;
        ASSERT_TRUE(shared::send(sockets[0], t, Access::read_only));
        (void)test::take(sockets[1]);
    }
    const auto late = pool.empty({half}, isthmus::uint8, Access::read_only, {.timeout_ms = 5});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), ErrorCode::timed_out);
    EXPECT_LE(pool.stats().reserved, limit);
}

TEST(Trust, AMessageThatStopsIsAnErrorInTime) {
    test::Sockets packets, stream(SOCK_STREAM);
    ASSERT_TRUE(shared::send(packets[0], shared::empty({2, 2}, isthmus::float32).value(), Access::read_only));
    const test::Raw raw = test::take(packets[1]);
    test::put(stream[0], {raw.bytes.begin(), raw.bytes.begin() + 70}, {raw.file.get()});
    const auto start = std::chrono::steady_clock::now();
    const auto got = shared::receive(stream[1], {}, {.timeout_ms = 50});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), ErrorCode::timed_out);
    EXPECT_STREQ(got.error().what(),
                 "the message stopped after 70 bytes of 96, and the rest did not come within 50 ms; close the socket, "
                 "since the next message cannot be found in it");
}

}  // namespace
