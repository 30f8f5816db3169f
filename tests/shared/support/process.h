// Processes and sockets for the tests: a child that reports by its exit code, or that is killed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <utility>

#include <gtest/gtest.h>

namespace test {

/// Two connected Unix sockets.
struct Sockets {
    int ends[2] = {-1, -1};
    explicit Sockets(int type = SOCK_SEQPACKET) { EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0); }
    Sockets(const Sockets&) = delete;
    Sockets& operator=(const Sockets&) = delete;
    ~Sockets() {
        close(0);
        close(1);
    }
    int operator[](int i) const { return ends[i]; }
    void close(int i) {
        if (ends[i] >= 0) ::close(std::exchange(ends[i], -1));
    }
};

/// A forked child that runs `body` and ends with what it returns; 99 when it throws.
class Child {
public:
    template <class Body>
    explicit Child(Body body) : pid_(::fork()) {
        if (pid_ != 0) return;
        int code = 99;
        try {
            code = body();
        } catch (const std::exception& e) {
            fprintf(stderr, "child: %s\n", e.what());
        }
        ::_exit(code);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (pid_ > 0) kill();
    }
    /// Its exit code; 1000 and the signal where one ended it.
    int wait() {
        int status = 0;
        EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    void kill() {
        ::kill(pid_, SIGKILL);
        (void)wait();
    }

private:
    pid_t pid_;
};

/// A byte each way, so that two processes are at a known place.
inline void signal(int socket) {
    const char byte = '!';
    ASSERT_EQ(::send(socket, &byte, 1, MSG_NOSIGNAL), 1);
}
inline bool await(int socket) {
    char byte = 0;
    return ::recv(socket, &byte, 1, 0) == 1 && byte == '!';
}

}  // namespace test
