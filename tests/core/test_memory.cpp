// The memory of new tensors: what is kept of dropped ones and given back, and a program's own allocator.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include <isthmus/converted.h>
#include <isthmus/isthmus.h>

#include "src/core/memory_cache.h"

#include "support/allocations.h"
#include "support/errors.h"
#include "support/sanitizers.h"

namespace {

using isthmus::Allocator;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;

constexpr std::size_t MiB = std::size_t{1} << 20;

Tensor bytes(std::size_t count) { return Tensor::empty({static_cast<std::int64_t>(count)}, isthmus::uint8); }
/// Makes tensors of these sizes, all alive at once, and drops them in this order.
void make_and_drop(std::initializer_list<std::size_t> sizes) {
    std::vector<Tensor> made;
    for (const std::size_t size : sizes) made.push_back(bytes(size));
    for (Tensor& tensor : made) tensor = Tensor();
}

/// The cache as it is at first, also where AddressSanitizer has it off, and empty.
class KeptMemory : public testing::Test {
protected:
    void SetUp() override {
        isthmus::set_cached_memory(512 * MiB);
        (void)isthmus::trim();
    }
    void TearDown() override {
        (void)isthmus::trim();
        isthmus::set_allocator(nullptr);
    }
};

TEST_F(KeptMemory, IsWhatTheNextTensorOfThatSizeIsMadeOf) {
    const void* first = nullptr;
    {
        const Tensor one = bytes(64 * MiB);
        first = one.data();
    }
    const Tensor other = bytes(64 * MiB);
    EXPECT_EQ(other.data(), first);
    EXPECT_EQ(isthmus::trim(), 0U) << "what is in use is not kept as well";
}

TEST_F(KeptMemory, IsNotUsedForMuchLess) {
    make_and_drop({64 * MiB});
    const Tensor half = bytes(32 * MiB);
    EXPECT_GE(isthmus::trim(), 64 * MiB);
    make_and_drop({64 * MiB});
    const Tensor nearly = bytes(60 * MiB);
    EXPECT_EQ(isthmus::trim(), 0U);
}

TEST_F(KeptMemory, IsNotUsedForMore) {
    make_and_drop({64 * MiB});
    const Tensor more = bytes(65 * MiB);
    std::memset(more.data(), 1, 65 * MiB);
    EXPECT_GE(isthmus::trim(), 64 * MiB);
}

TEST_F(KeptMemory, TheBestFitIsTaken) {
    make_and_drop({70 * MiB, 66 * MiB, 75 * MiB});
    const Tensor one = bytes(65 * MiB);
    const std::size_t left = isthmus::trim();
    EXPECT_GE(left, 145 * MiB);
    EXPECT_LT(left, 146 * MiB);
}

TEST_F(KeptMemory, SmallTensorsAreNotKept) {
    make_and_drop({MiB / 16 - 1, 1000});
    EXPECT_EQ(isthmus::trim(), 0U);
}

TEST_F(KeptMemory, IsBoundedAndTheOldestGoesFirst) {
    isthmus::set_cached_memory(100 * MiB);
    make_and_drop({40 * MiB, 48 * MiB, 50 * MiB});
    const std::size_t kept = isthmus::trim(60 * MiB);
    EXPECT_GE(kept, 48 * MiB) << "the one of 40 went when that of 50 came";
    EXPECT_LT(kept, 49 * MiB);
    EXPECT_GE(isthmus::trim(), 50 * MiB);
    make_and_drop({101 * MiB});
    EXPECT_EQ(isthmus::trim(), 0U);
}

TEST_F(KeptMemory, IsBoundedByItsBytesAndNotByItsPieces) {
    std::vector<Tensor> made;
    std::vector<const void*> before;
    for (int i = 0; i < 100; ++i) made.push_back(bytes(4 * MiB));
    for (int i = 0; i < 1000; ++i) made.push_back(bytes(MiB / 16));
    for (const Tensor& tensor : made) before.push_back(tensor.data());
    made.clear();
    for (int i = 0; i < 1000; ++i) made.push_back(bytes(MiB / 16));
    for (int i = 0; i < 100; ++i) made.push_back(bytes(4 * MiB));
    std::sort(before.begin(), before.end());
    for (const Tensor& tensor : made) EXPECT_TRUE(std::binary_search(before.begin(), before.end(), tensor.data()));
    made.clear();
    const std::size_t kept = isthmus::trim();
    EXPECT_GE(kept, 462 * MiB);
    EXPECT_LT(kept, 463 * MiB);
    for (int i = 0; i < 200; ++i) made.push_back(bytes(4 * MiB));
    made.clear();
    EXPECT_LE(isthmus::trim(), 512 * MiB);
}

TEST_F(KeptMemory, IsFoundAmongThousandsOfOtherSizes) {
    std::vector<Tensor> made;
    for (std::size_t i = 0; i < 3000; ++i) made.push_back(bytes(MiB / 16 + 64 * i));
    made.clear();
    for (std::size_t i = 0; i < 3000; ++i) {
        const std::size_t wanted = MiB / 16 + 64 * (i * 7919 % 3000);
        const Tensor tensor = bytes(wanted);
        std::memset(tensor.data(), 1, wanted);
    }
    EXPECT_GE(isthmus::trim(), 3000 * MiB / 16);
}

TEST_F(KeptMemory, CanBeTurnedOff) {
    make_and_drop({64 * MiB});
    isthmus::set_cached_memory(0);
    EXPECT_EQ(isthmus::trim(), 0U) << "and what was kept has gone";
    make_and_drop({64 * MiB});
    EXPECT_EQ(isthmus::trim(), 0U);
}

TEST_F(KeptMemory, IsAlignedAsTheNextTensorWants) {
    make_and_drop({64 * MiB});
    const Tensor page = Tensor::empty({60 * static_cast<std::int64_t>(MiB)}, isthmus::uint8, 1 << 16);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page.data()) % (1 << 16), 0U);
    EXPECT_EQ(isthmus::trim(), 0U);
    std::memset(page.data(), 1, 60 * MiB);
}

TEST_F(KeptMemory, LivesAsLongAsAnyView) {
    Tensor part;
    {
        const Tensor whole = bytes(64 * MiB);
        part = whole.slice(0, 5, 9);
        EXPECT_TRUE(isthmus::detail::owns_memory(whole.block())) << "a result needs no instance to keep it";
    }
    EXPECT_EQ(isthmus::trim(), 0U);
    part = Tensor();
    EXPECT_GE(isthmus::trim(), 64 * MiB);
}

TEST_F(KeptMemory, IsItsOwnersAlone) {
    const auto churn = [](unsigned char pattern) {
        for (int round = 0; round < 200; ++round) {
            const std::size_t size = 4 * MiB + static_cast<std::size_t>(round % 7) * 4096;
            const Tensor one = bytes(size);
            auto* data = static_cast<unsigned char*>(one.data());
            for (std::size_t i = 0; i < size; i += 4096) data[i] = pattern;
            std::this_thread::yield();
            for (std::size_t i = 0; i < size; i += 4096)
                ASSERT_EQ(data[i], pattern) << "another thread has the same memory";
        }
    };
    std::vector<std::thread> threads;
    for (unsigned char pattern = 1; pattern <= 4; ++pattern) threads.emplace_back(churn, pattern);
    for (std::thread& thread : threads) thread.join();
}

/// As a tensor's memory, of which two must never have the same at once.
struct Token {
    std::atomic<int> holders{0};
};
TEST(MemoryCache, OneThreadAtATimeHasWhatWasKept) {
    isthmus::detail::MemoryCache cache;
    cache.set_most(64 * MiB);
    constexpr int count = 3;
    Token* tokens[count];
    for (Token*& token : tokens) {
        token = ::new (std::malloc(sizeof(Token))) Token;
        ASSERT_TRUE(cache.put({nullptr, token, 5 * MiB}));
    }
    std::atomic<int> taken{0}, shared{0};
    const auto churn = [&] {
        for (int round = 0; round < 300'000; ++round) {
            const isthmus::detail::NewMemory memory = cache.take(5 * MiB);
            if (memory.start == nullptr) continue;
            ++taken;
            auto* token = static_cast<Token*>(memory.start);
            if (token->holders.fetch_add(1) != 0) ++shared;
            token->holders.fetch_sub(1);
            while (!cache.put(memory)) std::this_thread::yield();
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(churn);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(shared, 0) << "two threads had the same memory";
    EXPECT_GT(taken, 1000);
    EXPECT_EQ(cache.trim(0), count * 5 * MiB) << "and none is lost";
}

/// Threads that make and drop tensors while a test goes on.
class Churn {
public:
    Churn(int count, std::size_t size) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([this, size] {
                while (!done_) {
                    make_and_drop({size, size + MiB});
                    ++rounds_;
                }
            });
        while (rounds_ < 10) std::this_thread::yield();
    }
    ~Churn() {
        done_ = true;
        for (std::thread& thread : threads_) thread.join();
    }
    Churn(const Churn&) = delete;
    Churn& operator=(const Churn&) = delete;

private:
    std::atomic<bool> done_{false};
    std::atomic<int> rounds_{0};
    std::vector<std::thread> threads_;
};
TEST_F(KeptMemory, ALimitHoldsWhateverOtherThreadsDo) {
    for (int round = 0; round < 60; ++round) {
        isthmus::set_cached_memory(512 * MiB);
        {
            const Churn churn(3, 4 * MiB);
            isthmus::set_cached_memory(0);
        }
        ASSERT_EQ(isthmus::trim(), 0U) << "in round " << round;
    }
}
TEST(MemoryCache, TrimWaitsForItsTurn) {
    isthmus::detail::MemoryCache cache;
    cache.set_most(64 * MiB);
    const auto in_a_turn_of_another = [&](auto&& call) {
        cache.before_fork();
        std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            cache.after_fork();
        });
        call();
        other.join();
    };
    ASSERT_TRUE(cache.put({nullptr, std::malloc(1), 5 * MiB}));
    in_a_turn_of_another([&] { EXPECT_EQ(cache.trim(0), 5 * MiB); });
    ASSERT_TRUE(cache.put({nullptr, std::malloc(1), 5 * MiB}));
    in_a_turn_of_another([&] { cache.set_most(0); });
    EXPECT_EQ(cache.trim(0), 0U);
    void* memory = std::malloc(1);
    in_a_turn_of_another([&] { EXPECT_FALSE(cache.put({nullptr, memory, 5 * MiB})) << "a tensor waits for nobody"; });
    std::free(memory);
}

#if !ISTHMUS_TEST_TSAN && !defined(_WIN32)
TEST_F(KeptMemory, AForkInTheMidstOfItLeavesTheChildWorking) {
    ISTHMUS_TEST_NEEDS_MALLOC_AFTER_FORK();
    std::atomic<bool> done{false};
    std::thread other([&] {
        while (!done) make_and_drop({4 * MiB, 5 * MiB});
    });
    for (int i = 0; i < 30; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            for (int round = 0; round < 3; ++round) make_and_drop({4 * MiB});
            (void)isthmus::trim();
            make_and_drop({4 * MiB});
            _exit(isthmus::trim() >= 4 * MiB ? 0 : 1);  // the cache is in nobody's turn
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    done = true;
    other.join();
}
#endif

#if defined(__linux__) && !ISTHMUS_TEST_ASAN && !ISTHMUS_TEST_TSAN
std::size_t resident() {
    std::size_t pages = 0, all = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}
/// Whether memory that malloc gives back to the system leaves; an emulator keeps what sbrk took.
bool gives_back() {
    constexpr std::intptr_t size = 64 * MiB;
    const std::size_t before = resident();
    void* memory = sbrk(size);
    if (memory == reinterpret_cast<void*>(-1)) return false;
    std::memset(memory, 1, size);
    asm volatile("" : : "r"(memory) : "memory");
    (void)sbrk(-size);
    return resident() < before + size / 2;
}
TEST_F(KeptMemory, ResidentMemoryStaysBoundedOverRoundsOfMixedSizes) {
    isthmus::set_cached_memory(128 * MiB);
    const std::size_t before = resident();
    std::size_t most = 0;
    unsigned seed = 1;
    for (int round = 0; round < 1000; ++round) {
        seed = seed * 1664525 + 1013904223;
        const std::size_t size = MiB + (seed >> 8) % (40 * MiB);
        const Tensor one = bytes(size);
        std::memset(one.data(), 1, size);
        most = std::max(most, resident());
    }
    EXPECT_LT(most, before + (128 + 41 + 32) * MiB) << "what is kept, one tensor, and what malloc keeps of small ones";
    (void)isthmus::trim();
    if (!gives_back()) GTEST_SKIP() << "what is freed does not leave the process here";
    EXPECT_LT(resident(), before + 48 * MiB);
}
#endif

/// An allocator that counts, and may be told to fail.
struct Counting {
    static constexpr std::align_val_t page{4096};  // for whatever alignment is wanted here
    static void* allocate(std::size_t size, std::size_t, void* context) noexcept {
        auto& self = *static_cast<Counting*>(context);
        if (self.fails) return nullptr;
        ++self.alive;
        self.bytes += size;
        void* memory = ::operator new(size + 8, page);
        return self.askew ? static_cast<char*>(memory) + 8 : memory;
    }
    static void release(void* memory, std::size_t size, void* context) noexcept {
        auto& self = *static_cast<Counting*>(context);
        --self.alive;
        self.bytes -= size;
        ::operator delete(self.askew ? static_cast<char*>(memory) - 8 : memory, page);
    }
    Allocator allocator{allocate, release, this};
    int alive = 0;
    std::size_t bytes = 0;
    bool fails = false, askew = false;
};

TEST_F(KeptMemory, AnAllocatorGivesAndTakesBack) {
    Counting counting;
    isthmus::set_allocator(&counting.allocator);
    {
        const Tensor small = Tensor::empty({10}, isthmus::float32), large = bytes(8 * MiB),
                     page = Tensor::empty({3}, isthmus::float64, 4096);
        EXPECT_EQ(counting.alive, 3);
        EXPECT_EQ(counting.bytes, 40 + 8 * MiB + 24);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page.data()) % 4096, 0U);
        const Tensor copy = isthmus::copy_of(small).value();
        EXPECT_EQ(counting.alive, 4);
    }
    EXPECT_EQ(counting.alive, 0);
    EXPECT_EQ(counting.bytes, 0U);
    EXPECT_EQ(isthmus::trim(), 0U);
}

isthmus::Result<Tensor> as_float64(const Tensor& t) {
    using Wanted = isthmus::detail::Wanted<const double, 1, isthmus::converted>;
    return isthmus::detail::convert_tensor(t.block()->dl, Wanted::requirement);
}

TEST_F(KeptMemory, AConvertedArgumentIsOfIt) {
    const Tensor small = Tensor::own(std::vector<float>{1, 2, 3}), large = Tensor::own(std::vector<float>(MiB));
    Counting counting;
    isthmus::set_allocator(&counting.allocator);
    {
        const Tensor converted = as_float64(small).value();
        EXPECT_EQ(counting.alive, 1);
        EXPECT_EQ(counting.bytes, 24U);
        EXPECT_EQ(static_cast<const double*>(converted.data())[2], 3);
        EXPECT_TRUE(isthmus::detail::owns_memory(converted.block()));
    }
    EXPECT_EQ(counting.alive, 0);
    counting.fails = true;
    EXPECT_EQ(as_float64(small).error().code(), ErrorCode::out_of_memory);
    isthmus::set_allocator(nullptr);
    EXPECT_TRUE(isthmus::detail::owns_memory(as_float64(small).value().block()));
    isthmus::set_cached_memory(64 * MiB);
    const void* first = as_float64(large).value().data();  // 8 MiB, dropped at once
    EXPECT_EQ(as_float64(large).value().data(), first);
    EXPECT_GE(isthmus::trim(), 8 * MiB);
}

TEST_F(KeptMemory, AConversionThatIsRefusedGivesItBack) {
    const Tensor beyond = Tensor::own(std::vector<std::int64_t>{1, 1 << 20});
    Counting counting;
    isthmus::set_allocator(&counting.allocator);
    using Wanted = isthmus::detail::Wanted<const std::int16_t, 1, isthmus::converted>;
    EXPECT_FALSE(isthmus::detail::convert_tensor(beyond.block()->dl, Wanted::requirement));
    EXPECT_EQ(counting.alive, 0);
}

TEST_F(KeptMemory, ATensorGoesBackToTheAllocatorThatItCameFrom) {
    Counting first, second;
    isthmus::set_allocator(&first.allocator);
    Tensor one = bytes(100);
    isthmus::set_allocator(&second.allocator);
    Tensor two = bytes(100);
    isthmus::set_allocator(nullptr);
    Tensor three = bytes(100);
    EXPECT_EQ(first.alive, 1);
    EXPECT_EQ(second.alive, 1);
    one = two = three = Tensor();
    EXPECT_EQ(first.alive, 0);
    EXPECT_EQ(second.alive, 0);
}

TEST_F(KeptMemory, AnAllocatorIsNotAskedForNothing) {
    Counting counting;
    isthmus::set_allocator(&counting.allocator);
    const Tensor none = Tensor::empty({0, 3}, isthmus::float32);
    EXPECT_EQ(counting.alive, 0);
    EXPECT_EQ(none.numel(), 0);
}

TEST_F(KeptMemory, AnAllocatorThatHasNoneLeavesNothingBehind) {
    Counting counting;
    counting.fails = true;
    isthmus::set_allocator(&counting.allocator);
    isthmus_test::expect_error(ErrorCode::out_of_memory, "no memory for 40 bytes of float32(10,)",
                               [] { return Tensor::empty({10}, isthmus::float32); });
}

TEST_F(KeptMemory, AnAllocatorThatGivesMemoryAskewIsRefused) {
    Counting counting;
    counting.askew = true;
    isthmus::set_allocator(&counting.allocator);
    try {
        (void)Tensor::empty({10}, isthmus::float32);
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("which is no multiple of 64 bytes"), std::string::npos)
            << error.what();
    }
    EXPECT_EQ(counting.alive, 0) << "and it has its memory back";
}

TEST_F(KeptMemory, NoMemoryForALargeTensorIsAnError) {
    const Tensor first = bytes(1000);
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "a sanitizer allocates";
    EXPECT_THROW((void)bytes(64 * MiB), Error);
    EXPECT_EQ(bytes(64 * MiB).nbytes(), static_cast<std::int64_t>(64 * MiB));
}

}  // namespace
