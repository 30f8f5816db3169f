// Segments: sealed, reserved whole, without a name, and typed errors where there is no room.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "../core/support/sanitizers.h"
#include "support/memory.h"

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::Segment;

namespace {

int seals_of(int descriptor) { return ::fcntl(descriptor, F_GET_SEALS); }

TEST(Segment, IsSealedByWhoMayWrite) {
    const Segment sealed = Segment::create(100).value(), open = Segment::create(100, Access::shared).value();
    const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    EXPECT_EQ(seals_of(sealed.descriptor()) & size_seals, size_seals);
    EXPECT_EQ(seals_of(open.descriptor()) & size_seals, size_seals);
    EXPECT_NE(seals_of(sealed.descriptor()) & F_SEAL_FUTURE_WRITE, 0);
    EXPECT_EQ(seals_of(open.descriptor()) & F_SEAL_FUTURE_WRITE, 0);
    EXPECT_EQ(::mmap(nullptr, sealed.size(), PROT_WRITE, MAP_SHARED, sealed.descriptor(), 0), MAP_FAILED);
    EXPECT_NE(::ftruncate(sealed.descriptor(), 0), 0);
    EXPECT_NE(::fallocate(sealed.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    EXPECT_NE(::fcntl(sealed.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

#if defined(__linux__)
TEST(Segment, KnowsWhatMemoryThereIsWithoutProc) {
    const auto whole =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    EXPECT_LT(isthmus::shared::impl::system_memory(), 16 * whole);  // with swap
    for (const char* not_meminfo : {"/nowhere", "/dev/null"}) {
        EXPECT_GT(isthmus::shared::impl::system_memory(not_meminfo), 0U) << not_meminfo;
        EXPECT_LT(isthmus::shared::impl::system_memory(not_meminfo), 16 * whole) << not_meminfo;
    }
}
#endif

TEST(Segment, IsReservedWholeAndWrittenByItsMaker) {
    const Segment segment = Segment::create((1 << 20) + 1).value();
    struct stat status{};
    ASSERT_EQ(::fstat(segment.descriptor(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), segment.size());
    EXPECT_GE(segment.size(), std::size_t{(1 << 20) + 1});
    EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, segment.size());
    std::memset(segment.data(), 1, segment.size());
}

TEST(Segment, TensorsKeepItAndItIsGoneWithTheLast) {
    const int before = test::open_descriptors(), mapped = test::mappings_named("memfd:isthmus");
    {
        Tensor late;
        {
            const Segment segment = Segment::create(4096).value();
            late = segment.tensor({4}, isthmus::int32, 16).value();
            EXPECT_EQ(late.data(), static_cast<char*>(segment.data()) + 16);
        }
        test::element<int>(late, 3) = 5;
        test::Sockets sockets;
        ASSERT_TRUE(isthmus::shared::send(sockets[0], late, Access::read_only));
        EXPECT_EQ(test::element<int>(isthmus::shared::receive(sockets[1]).value(), 3), 5);
        EXPECT_EQ(isthmus::shared::send(sockets[0], late, Access::shared).error().code(), ErrorCode::read_only);
    }
    EXPECT_EQ(test::open_descriptors(), before);
    EXPECT_EQ(test::mappings_named("memfd:isthmus"), mapped);
}

TEST(Segment, TensorsLieWithinIt) {
    const Segment segment = Segment::create(4096).value();
    const auto code = [&](const isthmus::Shape& shape, isthmus::DType dtype, std::size_t offset) {
        auto made = segment.tensor(shape, dtype, offset);
        return made ? ErrorCode{} : made.error().code();
    };
    EXPECT_EQ(code({1024}, isthmus::float32, 0), ErrorCode{});
    EXPECT_EQ(code({0}, isthmus::float32, 4096), ErrorCode{});
    EXPECT_EQ(code({1025}, isthmus::float32, 0), ErrorCode::bad_layout);
    EXPECT_EQ(code({1}, isthmus::float32, 4096), ErrorCode::bad_layout);
    EXPECT_EQ(code({1}, isthmus::float32, SIZE_MAX), ErrorCode::bad_layout);
    EXPECT_EQ(code({1}, isthmus::float32, 2), ErrorCode::needs_copy);
    EXPECT_EQ(code({-1}, isthmus::float32, 0), ErrorCode::bad_layout);
    EXPECT_EQ(code({INT64_MAX, 3}, isthmus::float32, 0), ErrorCode::overflow);
    EXPECT_EQ(code({1}, isthmus::DType(99, 8), 0), ErrorCode::bad_dtype);
}

TEST(Segment, TooLargeIsAnError) {
    auto huge = Segment::create(std::size_t{64} << 40);
    ASSERT_FALSE(huge);
    EXPECT_EQ(huge.error().code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::strstr(huge.error().what(), "70368744177664 bytes"), nullptr) << huge.error().what();
    EXPECT_EQ(Segment::create(SIZE_MAX).error().code(), ErrorCode::overflow);
    EXPECT_EQ(isthmus::shared::empty({std::int64_t{1} << 43}, isthmus::float64).error().code(),
              ErrorCode::out_of_memory);
    EXPECT_EQ(isthmus::shared::empty({std::int64_t{1} << 62, 4}, isthmus::float64).error().code(), ErrorCode::overflow);
    EXPECT_TRUE(Segment::create(0));
}

/// UndefinedBehaviorSanitizer looks at the first object of a class by way of a pipe, which needs descriptors.
bool errors_are_known_to_sanitizers() {
    const auto made = Segment::create(~std::size_t{0});
    return !made && isthmus::Error(made.error()).code() == made.error().code();
}

TEST(Segment, LimitsOfTheProcessAreErrors) {
    const auto limited = [](int what, rlim_t most, ErrorCode wanted) {
        test::Child child([=] {
            if (!errors_are_known_to_sanitizers()) return 4;
            const struct rlimit limit{most, most};
            if (::setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &limit) != 0) return 1;
            auto made = Segment::create(std::size_t{8} << 20);
            if (made) return 2;
            if (made.error().code() != wanted) return fprintf(stderr, "%s\n", made.error().what()), 3;
            return 0;
        });
        return child.wait();
    };
    EXPECT_EQ(limited(RLIMIT_FSIZE, 1 << 20, ErrorCode::out_of_memory), 0) << "and no SIGXFSZ";
    EXPECT_EQ(limited(RLIMIT_NOFILE, 3, ErrorCode::system_failed), 0);
#if !ISTHMUS_TEST_ASAN && !ISTHMUS_TEST_TSAN
    EXPECT_EQ(limited(RLIMIT_AS, 1 << 20, ErrorCode::out_of_memory), 0);
#endif
}

TEST(Segment, AFullDescriptorTableIsAnErrorOfEachCall) {
    test::Sockets sockets;
    test::Child child([&] {
        const Tensor t = isthmus::shared::empty({8}, isthmus::float32).value();
        if (!isthmus::shared::send(sockets[0], t, Access::read_only)) return 1;
        if (!errors_are_known_to_sanitizers()) return 7;
        const int spare = ::dup(0), next = ::dup(0);
        const struct rlimit limit{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
        ::close(next);
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
        while (::dup(0) >= 0) {
        }
        auto sent = isthmus::shared::send(sockets[0], t, Access::read_only);
        if (sent || sent.error().code() != ErrorCode::system_failed) return 3;
        auto got = isthmus::shared::receive(sockets[1]);
        if (got || got.error().code() != ErrorCode::system_failed) return 4;
        ::close(spare);
        if (!isthmus::shared::send(sockets[0], t, Access::read_only)) return 5;
        return isthmus::shared::receive(sockets[1]) ? 0 : 6;
    });
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
