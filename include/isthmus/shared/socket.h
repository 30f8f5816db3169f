// Bytes and one descriptor over a Unix socket: SEQPACKET keeps messages apart, STREAM is read up to the length in the message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#endif

#include <vector>

#include <isthmus/shared/descriptor.h>
#include <isthmus/shared/wait.h>

ISTHMUS_BEGIN

namespace shared::impl {

#if !defined(_WIN32)

#if defined(MSG_NOSIGNAL)
inline constexpr int quiet = MSG_NOSIGNAL;
#else
inline constexpr int quiet = 0;
#endif
#if defined(MSG_CMSG_CLOEXEC)
inline constexpr int close_on_exec = MSG_CMSG_CLOEXEC;
#else
inline constexpr int close_on_exec = 0;
#endif

enum class SocketKind : std::uint8_t { packets, stream };

inline Result<SocketKind> socket_kind(int socket) {
    int type = 0;
    socklen_t size = sizeof type;
    struct sockaddr_un name{};
    socklen_t name_size = sizeof name;
    if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        ::getsockname(socket, reinterpret_cast<struct sockaddr*>(&name), &name_size) != 0)
        return Error(ErrorCode::bad_argument, concat({"argument 'socket': descriptor ", socket, " is not a socket"}));
    if (name.sun_family != AF_UNIX || (type != SOCK_SEQPACKET && type != SOCK_STREAM))
        return Error(ErrorCode::bad_argument, "argument 'socket': of another kind; wanted a Unix socket, SEQPACKET or STREAM");
    return type == SOCK_STREAM ? SocketKind::stream : SocketKind::packets;
}

/// Sends what is left of `bytes`, `file` with the first of them. Once a byte is sent the rest must follow, however long it
/// takes.
inline Result<void> send_bytes(int socket, const char* bytes, std::size_t size, const File& file, const Wait& wait) {
    const Deadline deadline(wait);
    for (std::size_t sent = 0; sent < size;) {
        struct iovec part{const_cast<char*>(bytes) + sent, size - sent};
        alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        struct msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        if (sent == 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            struct cmsghdr* head = CMSG_FIRSTHDR(&message);
            head->cmsg_level = SOL_SOCKET;
            head->cmsg_type = SCM_RIGHTS;
            head->cmsg_len = CMSG_LEN(sizeof(int));
            const int descriptor = file.get();
            std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
        }
        const ssize_t count = ::sendmsg(socket, &message, quiet | (deadline.is_endless() ? 0 : MSG_DONTWAIT));
        if (count >= 0) {
            sent += static_cast<std::size_t>(count);
            continue;
        }
        const int number = errno;
        const Deadline& left = sent == 0 ? deadline : Deadline(Wait{-1, nullptr, nullptr});
        if (number == EINTR) {
            if (left.is_interrupted()) return Deadline::interrupted();
        } else if (number == EAGAIN || number == EWOULDBLOCK || number == ENOBUFS) {
            if (auto ready = left.wait_for(socket, POLLOUT, "the receiver did not read"); !ready) return ready;
        } else if (number == ETOOMANYREFS) {  // too many descriptors are in flight: the receivers have to take some first
            if (auto ready = left.wait_for(-1, 0, "the receivers did not read", 1); !ready) return ready;
        } else {
            return system_error("sendmsg", number);
        }
    }
    return {};
}

/// What one recvmsg() brought besides bytes.
struct Arrived {
    std::vector<File> files;
    bool lost_files = false;  ///< more came than this process may open
    bool cut = false;         ///< the packet was longer than the room for it
};

// musl's macro compares numbers of different signs.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
inline struct cmsghdr* next_header(struct msghdr& message, struct cmsghdr* head) noexcept {
    return CMSG_NXTHDR(&message, head);
}
#pragma GCC diagnostic pop

inline void take_files(struct msghdr& message, Arrived& arrived) {
    for (struct cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = next_header(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int descriptor = -1;
            std::memcpy(&descriptor, CMSG_DATA(head) + i * sizeof(int), sizeof descriptor);
            if (close_on_exec == 0) (void)::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
            arrived.files.emplace_back(descriptor);
        }
    }
    arrived.lost_files |= (message.msg_flags & MSG_CTRUNC) != 0;
    arrived.cut |= (message.msg_flags & MSG_TRUNC) != 0;
}

/// Up to `size` bytes; 0 when the peer is gone.
inline Result<std::size_t> receive_some(int socket, char* to, std::size_t size, const Deadline& deadline, Arrived& arrived) {
    for (;;) {
        struct iovec part{to, size};
        alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];  // SCM_MAX_FD: all that can come with one message
        struct msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t count = ::recvmsg(socket, &message, close_on_exec | (deadline.is_endless() ? 0 : MSG_DONTWAIT));
        if (count >= 0) {
            take_files(message, arrived);
            return static_cast<std::size_t>(count);
        }
        const int number = errno;
        if (number == ECONNRESET) return std::size_t{0};
        if (number == EINTR) {
            if (deadline.is_interrupted()) return Deadline::interrupted();
        } else if (number == EAGAIN || number == EWOULDBLOCK) {
            if (auto ready = deadline.wait_for(socket, POLLIN, "nothing came"); !ready) return std::move(ready).error();
        } else {
            return system_error("recvmsg", number);
        }
    }
}

ISTHMUS_COLD inline Error peer_closed() { return Error(ErrorCode::peer_closed, "the sender is gone, or has closed its end"); }

/// Whether the other end is closed: otherwise an empty packet would look the same.
inline bool is_closed(int socket) noexcept {
#if defined(POLLRDHUP)
    struct pollfd item{socket, POLLRDHUP, 0};
    return ::poll(&item, 1, 0) > 0 && (item.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
#else
    struct pollfd item{socket, 0, 0};
    return ::poll(&item, 1, 0) > 0 && (item.revents & (POLLHUP | POLLERR)) != 0;
#endif
}

inline Result<void> receive_packet(int socket, Message& m, const Wait& wait, Arrived& arrived) {
    Result<std::size_t> count = receive_some(socket, reinterpret_cast<char*>(&m), sizeof m, Deadline(wait), arrived);
    if (!count) return std::move(count).error();
    if (*count == 0 && arrived.files.empty() && is_closed(socket)) return peer_closed();
    if (*count < sizeof(Header))
        return bad_message(concat({"the message has ", *count, " bytes; wanted at least ", sizeof(Header)}));
    if (auto good = check_header(m.header); !good) return good;
    if (arrived.cut || *count != m.length())
        return bad_message(concat(
            {"the message has ", arrived.cut ? "more than " : "", *count, " bytes; wanted the ", m.length(), " that it says"}));
    return {};
}

/// Bytes [from, to) of the message, from a stream. A wait that ended in the middle of a message would lose the position in the
/// stream, so the caller's timeout applies only to the first byte of a message.
inline Result<void> receive_stream_part(int socket, Message& m, std::size_t from, std::size_t to, const Wait& wait,
                                        Arrived& arrived) {
    while (from < to) {
        const Deadline deadline(from == 0 ? wait : Wait{-1, wait.interrupted, wait.context});
        Result<std::size_t> count = receive_some(socket, reinterpret_cast<char*>(&m) + from, to - from, deadline, arrived);
        if (!count) return std::move(count).error();
        if (*count == 0 && from == 0) return peer_closed();
        if (*count == 0)
            return bad_message(concat({"the message ends after ", from, " bytes, since the sender is gone; wanted ", to}));
        from += *count;
    }
    return {};
}

inline Result<void> receive_stream(int socket, Message& m, const Wait& wait, Arrived& arrived) {
    if (auto read = receive_stream_part(socket, m, 0, sizeof(Header), wait, arrived); !read) return read;
    if (auto good = check_header(m.header); !good) return good;
    return receive_stream_part(socket, m, sizeof(Header), m.length(), wait, arrived);
}

/// One whole message and its descriptor. Whatever else came with it is closed.
inline Result<File> receive_message(int socket, Message& m, const Wait& wait) {
    const Result<SocketKind> kind = socket_kind(socket);
    if (!kind) return kind.error();
    Arrived arrived;
    auto read =
        *kind == SocketKind::stream ? receive_stream(socket, m, wait, arrived) : receive_packet(socket, m, wait, arrived);
    if (!read) return std::move(read).error();
    if (arrived.lost_files)
        return Error(ErrorCode::system_failed,
                     "the descriptor of the message is lost: this process has as many open as it may (RLIMIT_NOFILE)");
    if (arrived.files.size() != 1)
        return bad_message(concat({"the message came with ", arrived.files.size(), " descriptors; wanted one"}));
    return std::move(arrived.files.front());
}

#endif

}  // namespace shared::impl

ISTHMUS_END
