// Memory as a peer that does not use Isthmus makes it, and a message of Isthmus in plain bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <vector>

#include <isthmus/shared.h>

#include "process.h"
#include "src/shared/message.h"
#include "src/shared/registry.h"

namespace test {

inline constexpr int good_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// A memfd of `size` bytes, of which the first `reserved` are there.
inline isthmus::shared::impl::File memory(std::size_t size, std::size_t reserved, int seals) {
    isthmus::shared::impl::File file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
    if (reserved != 0) {
        EXPECT_EQ(::fallocate(file.get(), 0, 0, static_cast<off_t>(reserved)), 0);
    }
    if (seals != 0) {
        EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    }
    return file;
}

/// What came over a socket, taken without Isthmus.
struct Raw {
    std::vector<char> bytes;
    isthmus::shared::impl::File file;
};
inline Raw take(int socket) {
    Raw raw;
    raw.bytes.resize(4096);
    struct iovec part{raw.bytes.data(), raw.bytes.size()};
    alignas(struct cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    struct msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    EXPECT_GT(count, 0);
    raw.bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    isthmus::shared::impl::Arrived arrived;
    isthmus::shared::impl::take_files(message, arrived);
    raw.file = std::move(arrived.file);
    return raw;
}
inline void put(int socket, const std::vector<char>& bytes, const std::vector<int>& descriptors) {
    struct iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    struct msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        struct cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

inline int open_descriptors() {
    int count = 0;
    DIR* folder = ::opendir("/proc/self/fd");
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
    return count;
}

/// Processes' descriptors and mappings of segments that are still there, of all processes that can be looked at.
inline int mappings_named(const char* name) {
    int count = 0;
    FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[4096];
    while (std::fgets(line, sizeof line, maps) != nullptr) count += std::strstr(line, name) != nullptr;
    std::fclose(maps);
    return count;
}

template <class T>
T& element(const isthmus::Tensor& tensor, std::int64_t i = 0) {
    return static_cast<T*>(tensor.data())[i];
}

}  // namespace test
