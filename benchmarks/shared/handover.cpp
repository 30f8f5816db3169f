// What a hand-over and its answer cost from C++, and how fast fresh and recycled memory is filled.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/isthmus.h>
#include <isthmus/shared.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace shared = isthmus::shared;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Times {
    double least, median;
};
Times times_of(std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return {all.front() * 1e6, all[all.size() / 2] * 1e6};
}

/// A receiver that touches the first element, drops the tensor and answers with a byte.
[[noreturn]] void answer(int socket) {
    for (;;) {
        auto tensor = shared::receive(socket);
        if (!tensor) _exit(tensor.error().code() == isthmus::ErrorCode::peer_closed ? 0 : 1);
        const char byte = *static_cast<const char*>(tensor->data());
        tensor = isthmus::Tensor();
        if (write(socket, &byte, 1) != 1) _exit(2);
    }
}

template <class Once>
Times measure(int rounds, Once&& once) {
    std::vector<double> all;
    for (int i = 0; i < rounds; ++i) {
        const auto start = Clock::now();
        once();
        all.push_back(since(start));
    }
    return times_of(all);
}

void hand_over(std::int64_t bytes, shared::Access access, int rounds) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
    if (fork() == 0) {
        close(ends[0]);
        answer(ends[1]);
    }
    close(ends[1]);
    const isthmus::Tensor tensor = shared::empty({bytes}, isthmus::uint8, access).value();
    const Times t = measure(rounds, [&] {
        shared::send(ends[0], tensor, access).value();
        char byte;
        if (read(ends[0], &byte, 1) != 1) _exit(3);
    });
    std::printf(
        "{\"what\": \"C++ hand-over and answer\", \"bytes\": %lld, \"access\": \"%s\", \"least_us\": %.1f, "
        "\"median_us\": "
        "%.1f}\n",
        static_cast<long long>(bytes), shared::access_name(access), t.least, t.median);
    close(ends[0]);
    wait(nullptr);
}

void bare_socket(int rounds) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
    char byte = 0;
    if (fork() == 0) {
        close(ends[0]);
        while (read(ends[1], &byte, 1) == 1)
            if (write(ends[1], &byte, 1) != 1) break;
        _exit(0);
    }
    close(ends[1]);
    const Times t = measure(rounds, [&] {
        if (write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) _exit(3);
    });
    std::printf("{\"what\": \"bare socket, one byte there and back\", \"least_us\": %.1f, \"median_us\": %.1f}\n",
                t.least, t.median);
    close(ends[0]);
    wait(nullptr);
}

void fill(std::size_t bytes) {
    const std::vector<char> source(bytes, 1);
    std::vector<char> warm(bytes, 2);
    const auto rate = [&](auto&& target) {
        double best = 1e9;
        for (int i = 0; i < 5; ++i) {
            const auto start = Clock::now();
            auto held = target();
            std::memcpy(held.data(), source.data(), bytes);
            best = std::min(best, since(start));
        }
        return static_cast<double>(bytes) / best / 1e9;
    };
    const double memory = rate([&] { return std::span<char>(warm); });
    const double fresh = rate([&] {
        shared::Pool::process().trim();
        return shared::empty({static_cast<std::int64_t>(bytes)}, isthmus::uint8).value();
    });
    shared::Pool pool;
    const double recycled =
        rate([&] { return pool.empty({static_cast<std::int64_t>(bytes)}, isthmus::uint8).value(); });
    std::printf("{\"what\": \"fill, GB/s\", \"bytes\": %zu, \"warm\": %.1f, \"recycled\": %.1f, \"fresh\": %.1f}\n",
                bytes, memory, recycled, fresh);
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    bare_socket(10000);
    for (const std::int64_t bytes : {std::int64_t{4096}, std::int64_t{1} << 20, std::int64_t{1} << 30})
        for (const auto access : {shared::Access::read_only, shared::Access::copy_on_write, shared::Access::shared})
            hand_over(bytes, access, 5000);
    shared::Pool::process().trim();
    for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{1} << 25, std::size_t{1} << 28}) fill(bytes);
}
