// Hostile peers: each message is refused by one Error, nothing is mapped that could fault, nothing leaks.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <functional>
#include <random>

#include "support/memory.h"

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::impl::File;
using isthmus::shared::impl::Header;
namespace shared = isthmus::shared;

namespace {

constexpr std::size_t size = 1 << 20;  // of the segment that a pool makes first

/// The bytes of a good message, and what Isthmus says to it once `change` has been at work.
class Peer {
public:
    explicit Peer(int type) : sockets(type) {
        Tensor t = pool.empty({64, 4}, isthmus::float32).value();
        test::Sockets own;
        EXPECT_TRUE(shared::send(own[0], t, Access::read_only));
        message = test::take(own[1]).bytes;
        std::memcpy(&header, message.data(), sizeof header);
        EXPECT_EQ(header.segment_size, size);
    }
    std::vector<char> with(const std::function<void(Header&)>& change) const {
        std::vector<char> bytes = message;
        Header h = header;
        change(h);
        std::memcpy(bytes.data(), &h, sizeof h);
        return bytes;
    }
    /// The code of the Error, and a good message is received after it.
    ErrorCode said(const std::vector<char>& bytes, const std::vector<int>& files, bool goes_on = true) {
        test::put(sockets[0], bytes, files);
        auto got = shared::receive(sockets[1]);
        EXPECT_FALSE(got);
        if (goes_on) {
            const File good = test::memory(size, size, test::good_seals);
            test::put(sockets[0], message, {good.get()});
            EXPECT_TRUE(shared::receive(sockets[1]));
        }
        return got ? ErrorCode{} : got.error().code();
    }
    ErrorCode said_to_file(const File& file) { return said(message, {file.get()}); }

    shared::Pool pool;
    test::Sockets sockets;
    std::vector<char> message;
    Header header{};
};

class Hostile : public testing::TestWithParam<int>, public Peer {
protected:
    Hostile() : Peer(GetParam()) {}
};
class HostilePackets : public testing::Test, public Peer {
protected:
    HostilePackets() : Peer(SOCK_SEQPACKET) {}
};
class HostileStream : public testing::Test, public Peer {
protected:
    HostileStream() : Peer(SOCK_STREAM) {}
};
INSTANTIATE_TEST_SUITE_P(Sockets, Hostile, testing::Values(SOCK_SEQPACKET, SOCK_STREAM),
                         [](const auto& kind) { return kind.param == SOCK_STREAM ? "Stream" : "Packets"; });

TEST_P(Hostile, GoodMemoryOfAnotherMakerIsTaken) {
    const File good = test::memory(size, size, test::good_seals | F_SEAL_SEAL);
    test::put(sockets[0], message, {good.get()});
    const Tensor t = shared::receive(sockets[1]).value();
    EXPECT_EQ(t.numel(), 256);
    EXPECT_EQ(test::element<float>(t), 0);
}

TEST_P(Hostile, MemoryThatMayChange) {
    EXPECT_EQ(said_to_file(test::memory(size, size, 0)), ErrorCode::bad_message) << "unsealed";
    EXPECT_EQ(said_to_file(test::memory(size, size, F_SEAL_GROW | F_SEAL_FUTURE_WRITE)), ErrorCode::bad_message)
        << "may shrink";
    EXPECT_EQ(said_to_file(test::memory(size, size, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE)), ErrorCode::bad_message)
        << "may grow";
    EXPECT_EQ(said_to_file(test::memory(size, size, F_SEAL_SHRINK | F_SEAL_GROW)), ErrorCode::bad_message)
        << "its pages may be taken away";
}

TEST_P(Hostile, MemoryThatIsNotThere) {
    EXPECT_EQ(said_to_file(test::memory(size / 2, size / 2, test::good_seals)), ErrorCode::bad_message) << "short";
    EXPECT_EQ(said_to_file(test::memory(size * 2, size * 2, test::good_seals)), ErrorCode::bad_message) << "long";
    EXPECT_EQ(said_to_file(test::memory(size, 0, test::good_seals)), ErrorCode::bad_message) << "nothing reserved";
    EXPECT_EQ(said_to_file(test::memory(size, size - 4096, test::good_seals)), ErrorCode::bad_message)
        << "one page missing";
    File punched = test::memory(size, size, 0);
    ASSERT_EQ(::fallocate(punched.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), 0);
    // As many pages past the end hide the hole from a count of all pages.
    ASSERT_EQ(::fallocate(punched.get(), FALLOC_FL_KEEP_SIZE, size, 1 << 16), 0);
    ASSERT_EQ(::fcntl(punched.get(), F_ADD_SEALS, test::good_seals), 0);
    EXPECT_EQ(said_to_file(punched), ErrorCode::bad_message) << "punched";
}

TEST_P(Hostile, DescriptorsOfAnotherKind) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    char name[] = "/tmp/isthmus-test-XXXXXX";
    const File plain(::mkostemp(name, O_CLOEXEC));
    ::unlink(name);
    ASSERT_EQ(::ftruncate(plain.get(), size), 0);
    const File null(::open("/dev/null", O_RDWR | O_CLOEXEC)), folder(::open("/", O_RDONLY | O_CLOEXEC));
    for (const int wrong : {pipe[0], pipe[1], plain.get(), null.get(), folder.get(), sockets[0]})
        EXPECT_EQ(said(message, {wrong}), ErrorCode::bad_message) << wrong;
    ::close(pipe[0]);
    ::close(pipe[1]);
    // Through this one the check could not be made.
    const File good = test::memory(size, size, test::good_seals);
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", good.get());
    EXPECT_EQ(said_to_file(File(::open(path, O_RDONLY | O_CLOEXEC))), ErrorCode::bad_message);
}

TEST_P(Hostile, HugePagesAreNotReservedByTheirFile) {
    const File huge(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
    if (!huge || ::ftruncate(huge.get(), 2 << 20) != 0) GTEST_SKIP() << "no huge pages here";
    ASSERT_EQ(::fcntl(huge.get(), F_ADD_SEALS, test::good_seals), 0);
    EXPECT_EQ(said(with([](Header& h) { h.segment_size = 2 << 20; }), {huge.get()}), ErrorCode::bad_message);
}

TEST_P(Hostile, NoDescriptorOrTooMany) {
    EXPECT_EQ(said(message, {}), ErrorCode::bad_message);
    const File good = test::memory(size, size, test::good_seals);
    EXPECT_EQ(said(message, {good.get(), good.get()}), ErrorCode::bad_message);
    EXPECT_EQ(said(message, std::vector<int>(200, good.get())), ErrorCode::bad_message);
}

TEST_P(Hostile, NumbersThatLeaveTheMemory) {
    const File good = test::memory(size, size, test::good_seals);
    const auto refused = [&](const std::function<void(Header&)>& change) {
        EXPECT_EQ(said(with(change), {good.get()}), ErrorCode::bad_message);
    };
    refused([](Header& h) { h.data_offset = size; });
    refused([](Header& h) { h.data_offset = UINT64_MAX - 3; });
    refused([](Header& h) { h.data_offset += 1; });  // misaligned
    refused([](Header& h) { h.slot_offset = size; });
    refused([](Header& h) { h.slot_offset = UINT64_MAX - 4095; });
    refused([](Header& h) { h.slot_offset = 1; });
    refused([](Header& h) { h.slot_size = 0; });
    refused([](Header& h) { h.slot_size = UINT64_MAX - 4095; });
    refused([](Header& h) { h.slot_size = size + 4096; });
    refused([](Header& h) { h.segment_size = 0; });
    refused([](Header& h) { h.segment_size = UINT64_MAX - 4095; });
    refused([](Header& h) { h.segment_size = size - 4096; });
    refused([](Header& h) { h.access = 3; });
    refused([](Header& h) { h.flags = 1; });
    refused([](Header& h) { h.leased = 2; });
    refused([](Header& h) { h.zero = 1; });
    refused([](Header& h) { h.kind = 3; });
    refused([](Header& h) { h.dtype = {99, 32, 1}; });
    refused([](Header& h) { h.dtype = {kDLFloat, 7, 1}; });
    refused([](Header& h) { h.dtype = {kDLFloat, 32, 0}; });
    refused([](Header& h) { h.dtype = {kDLFloat, 64, 65535}; });
}

TEST_P(Hostile, ShapesThatLeaveTheMemory) {
    const File good = test::memory(size, size, test::good_seals);
    const auto refused = [&](std::int64_t rows, std::int64_t columns, std::int64_t down, std::int64_t across) {
        std::vector<char> bytes = message;
        const std::int64_t dims[] = {rows, columns, down, across};
        std::memcpy(bytes.data() + sizeof(Header), dims, sizeof dims);
        EXPECT_EQ(said(bytes, {good.get()}), ErrorCode::bad_message)
            << rows << " " << columns << " " << down << " " << across;
    };
    refused(1025, 1, 1, 1);
    refused(-1, 4, 4, 1);
    refused(INT64_MAX, INT64_MAX, 4, 1);
    refused(2, 2, -1, 1);
    refused(2, 2, INT64_MAX, 1);
    refused(2, 2, INT64_MIN, INT64_MIN);
    refused(INT64_MAX, 1, 1, 1);
    refused(INT64_MAX, 4, 0, 1);  // more bytes than can be counted
}

// A stream has no place to go on from after these.
TEST_F(HostilePackets, MessagesThatAreNone) {
    const File good = test::memory(size, size, test::good_seals);
    EXPECT_EQ(said(std::vector<char>(1, 'x'), {good.get()}), ErrorCode::bad_message);
    EXPECT_EQ(said(std::vector<char>(3000, 'x'), {good.get()}), ErrorCode::bad_message);
    EXPECT_EQ(said({message.begin(), message.end() - 1}, {good.get()}), ErrorCode::bad_message);
    EXPECT_EQ(said({message.begin(), message.begin() + sizeof(Header)}, {good.get()}), ErrorCode::bad_message);
    std::vector<char> longer = message;
    longer.resize(longer.size() + 8);
    EXPECT_EQ(said(longer, {good.get()}), ErrorCode::bad_message);
    EXPECT_EQ(said({}, {}), ErrorCode::bad_message) << "an empty packet is not the end";
    for (const auto& change : std::vector<std::function<void(Header&)>>{
             [](Header& h) { h.magic[0] = 'J'; }, [](Header& h) { h.version = 2; }, [](Header& h) { h.length += 16; },
             [](Header& h) { h.ndim = 65; }, [](Header& h) { h.ndim = -1; }, [](Header& h) { h.ndim = 1; }})
        EXPECT_EQ(said(with(change), {good.get()}), ErrorCode::bad_message);
}

TEST_F(HostileStream, EndsInAMessage) {
    for (const std::size_t count : {std::size_t{1}, sizeof(Header) - 1, sizeof(Header), message.size() - 1}) {
        test::Sockets own(SOCK_STREAM);
        const File good = test::memory(size, size, test::good_seals);
        test::put(own[0], {message.begin(), message.begin() + static_cast<std::ptrdiff_t>(count)}, {good.get()});
        own.close(0);
        auto got = shared::receive(own[1]);
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().code(), ErrorCode::bad_message) << count;
        EXPECT_EQ(shared::receive(own[1]).error().code(), ErrorCode::peer_closed);
    }
}

TEST_F(HostileStream, ComesInSmallPieces) {
    const File good = test::memory(size, size, test::good_seals);
    test::Child sender([&] {
        for (std::size_t i = 0; i < message.size(); ++i) {
            test::put(sockets[0], {message[i]}, i == 0 ? std::vector<int>{good.get()} : std::vector<int>{});
            if (i % 16 == 0) ::usleep(500);
        }
        return 0;
    });
    const Tensor t = shared::receive(sockets[1], {}, {.timeout_ms = 5000}).value();
    EXPECT_EQ(t.shape()[0], 64);
    EXPECT_EQ(sender.wait(), 0);
}

// Whatever one byte is changed to, there is a tensor within the memory or an Error.
TEST_F(HostilePackets, AnyByteMayBeWrong) {
    const File good = test::memory(size, size, test::good_seals);
    std::mt19937 random(7);
    int taken = 0, refused = 0;
    for (int round = 0; round < 20000; ++round) {
        std::vector<char> bytes = message;
        for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
            bytes[random() % bytes.size()] = static_cast<char>(random() % 4 == 0 ? random() : 1u << random() % 8);
        test::put(sockets[0], bytes, {good.get()});
        auto got = shared::receive(sockets[1]);
        if (!got) {
            ++refused;
            continue;
        }
        ++taken;
        std::int64_t first = 0, last = 0;
        ASSERT_TRUE(shared::impl::reach(got->descriptor(), got->is_padded(), first, last));
        if (last < first) continue;
        volatile char touched = static_cast<char*>(got->data())[first];
        touched = static_cast<char*>(got->data())[last];
        (void)touched;
    }
    EXPECT_GT(taken, 100);
    EXPECT_GT(refused, 1000);
}

TEST_P(Hostile, NothingIsLeftOpen) {
    const int before = test::open_descriptors(), mapped = test::mappings_named("memfd:test");
    for (int i = 0; i < 50; ++i) {
        said_to_file(test::memory(size, size, 0));
        said(message, {});
        const File good = test::memory(size, size, test::good_seals);
        said(with([](Header& h) { h.data_offset += 1; }), {good.get()});
        said(message, std::vector<int>(9, good.get()));
    }
    EXPECT_EQ(test::open_descriptors(), before);
    EXPECT_EQ(test::mappings_named("memfd:test"), mapped);
}

}  // namespace
