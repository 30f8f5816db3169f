// Threads that make, send, receive and drop at once.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "../core/support/sanitizers.h"
#include "support/memory.h"

using isthmus::Tensor;
using isthmus::shared::Access;
using isthmus::shared::Pool;
namespace shared = isthmus::shared;

#if ISTHMUS_TEST_TSAN
// A forked child is without its parent's other threads, which the sanitizer would call leaked.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:report_thread_leaks=0"; }
#endif

namespace {

TEST(Threads, PairsShareOnePool) {
    constexpr int pairs = 3, rounds = 400;
    Pool pool({.limit = 32 << 20});
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<test::Sockets>> sockets;
    for (int p = 0; p < pairs; ++p) {
        sockets.push_back(std::make_unique<test::Sockets>(p % 2 == 0 ? SOCK_SEQPACKET : SOCK_STREAM));
        threads.emplace_back([&pool, p, socket = (*sockets.back())[0]] {
            for (int i = 0; i < rounds; ++i) {
                const Tensor t =
                    pool.empty({500 + 100 * p}, isthmus::int32, Access::read_only, {.timeout_ms = 60000}).value();
                test::element<int>(t) = i;
                shared::send(socket, t, i % 2 == 0 ? Access::read_only : Access::copy_on_write).value();
            }
        });
        threads.emplace_back([socket = (*sockets.back())[1]] {
            std::vector<Tensor> held;
            for (int i = 0; i < rounds; ++i) {
                held.push_back(shared::receive(socket).value());
                ASSERT_EQ(test::element<int>(held.back()), i);
                if (held.size() > 10) held.clear();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    pool.trim();
    EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST(Threads, ForksBetweenExchanges) {
    ISTHMUS_TEST_NEEDS_MALLOC_AFTER_FORK();
    Pool pool;
    test::Sockets sockets;
    std::thread busy([&] {
        for (int i = 0; i < 300; ++i) {
            const Tensor t = pool.empty({100}, isthmus::int32).value();
            shared::send(sockets[0], t, Access::read_only).value();
            ASSERT_TRUE(shared::receive(sockets[1]));
        }
    });
    for (int i = 0; i < 10; ++i) {
        test::Child child([&] { return pool.empty({100}, isthmus::int32) ? 0 : 1; });
        EXPECT_EQ(child.wait(), 0);
    }
    busy.join();
}

}  // namespace
