// The message that is sent with a segment's descriptor, checked field by field, and how it crosses a Unix socket.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstring>

#if !defined(_WIN32)
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#endif

#include <isthmus/shared.h>

#include "system.h"

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr char message_magic[8] = {'I', 's', 't', 'h', 'm', 'u', 's', '\n'};
inline constexpr std::uint32_t message_version = 1;

/// What the tensor of a message is: a tensor, one of the tensors of a tree that follows, or the bytes of a tree.
enum class Kind : std::uint8_t { tensor, part, tree };

/// Numbers in the machine's own byte order: both ends are on one machine. Shape and strides follow, `ndim` int64 each.
struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t length;  ///< bytes of the whole message
    DLDataType dtype;
    std::int32_t ndim;
    std::uint32_t flags;  ///< DLPack's; only "padded" is used
    std::uint8_t access;  ///< the most that the receiver may take
    std::uint8_t leased;  ///< 1: the message has its own open file, which holds a lease on the slot
    std::uint8_t kind;    ///< a Kind
    std::uint8_t zero;
    std::uint64_t segment_size;
    std::uint64_t slot_offset, slot_size;  ///< what the receiver leases: whole pages
    std::uint64_t data_offset;             ///< of the first element, from the segment's beginning
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

struct Message {
    Header header{};
    std::int64_t dims[2 * max_ndim];  ///< shape, then strides

    static constexpr std::size_t dims_bytes(int ndim) noexcept {
        return 2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t);
    }
    std::size_t length() const noexcept { return sizeof(Header) + dims_bytes(header.ndim); }
    const std::int64_t* shape() const noexcept { return dims; }
    const std::int64_t* strides() const noexcept { return dims + header.ndim; }
    Access access() const noexcept { return static_cast<Access>(header.access); }
    bool padded() const noexcept { return (header.flags & flag::padded) != 0; }
};
static_assert(offsetof(Message, dims) == sizeof(Header));

/// Checked before the rest of the message can be read: that it is not empty, and has a known length.
inline Result<void> check_header(const Header& h) {
    if (std::memcmp(h.magic, message_magic, sizeof message_magic) != 0)
        return bad_message("the message is not one of isthmus::shared::send()");
    if (h.version != message_version)
        return bad_message({"the message is of version ", h.version, "; expected ", message_version});
    if (h.ndim < 0 || h.ndim > max_ndim)
        return bad_message({"the message says ", h.ndim, " dimensions; expected 0 to ", max_ndim});
    if (h.length != sizeof(Header) + Message::dims_bytes(h.ndim))
        return bad_message({"the message says ", h.length, " bytes; expected ",
                            sizeof(Header) + Message::dims_bytes(h.ndim), " for ", h.ndim, " dimensions"});
    return {};
}

/// The first and last byte of the elements, from the first element; {0, -1} without elements. False if they overflow.
inline bool reach(const DLTensor& t, bool padded, std::int64_t& first, std::int64_t& last) {
    std::int64_t numel = 0, nbytes = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::nbytes(numel, t.dtype, padded, nbytes)) return false;
    first = 0;
    last = nbytes - 1;
    if (numel == 0 || (DType(t.dtype).is_subbyte() && !padded)) return true;
    return layout::extent(t.shape, t.strides, t.ndim, DType(t.dtype).itemsize(), first, last);
}

/// Whether the slot lies in the segment and the elements in the slot. The description itself (dtype, shape, alignment,
/// packed strides) is checked by Tensor::wrap_spec(), as for every tensor.
inline Result<void> check_message(const Message& m, std::size_t page) {
    const Header& h = m.header;
    if (h.access > static_cast<std::uint8_t>(Access::shared))
        return bad_message({"the message says access ", h.access, "; expected 0, 1 or 2"});
    if ((h.flags & ~static_cast<std::uint32_t>(flag::padded)) != 0 || h.leased > 1 ||
        h.kind > static_cast<std::uint8_t>(Kind::tree) || h.zero != 0)
        return bad_message("the message has bits that this version does not know");
    const DType dtype = h.dtype;
    if (!dtype.is_valid())
        return bad_message({"the message says dtype (code ", dtype.code, ", bits ", dtype.bits(), ", lanes ",
                            dtype.lanes(), "), which is not one that DLPack 1.3 defines"});
    if (h.segment_size == 0 || h.segment_size > static_cast<std::uint64_t>(INT64_MAX) || h.segment_size % page != 0 ||
        h.slot_offset % page != 0 || h.slot_size % page != 0 || h.slot_size == 0 || h.slot_size > h.segment_size ||
        h.slot_offset > h.segment_size - h.slot_size)
        return bad_message({"the message says bytes ", h.slot_offset, " + ", h.slot_size, " of a segment of ",
                            h.segment_size, "; expected whole pages within it"});
    const DLTensor t{nullptr,
                     {kDLCPU, 0},
                     h.ndim,
                     h.dtype,
                     const_cast<std::int64_t*>(m.shape()),
                     const_cast<std::int64_t*>(m.strides()),
                     0};
    std::int64_t first = 0, last = 0;
    if (!reach(t, m.padded(), first, last))
        return bad_message("the message says a shape or strides that leave the address space");
    const std::uint64_t slot_end = h.slot_offset + h.slot_size;
    if (h.data_offset < h.slot_offset || h.data_offset > slot_end ||
        isthmus::detail::magnitude(first) > h.data_offset - h.slot_offset ||
        (last >= 0 && static_cast<std::uint64_t>(last) >= slot_end - h.data_offset))
        return bad_message({"the elements reach from ", first, " to ", last, " around byte ", h.data_offset,
                            " of the segment; expected bytes ", h.slot_offset, " to ", slot_end});
    return {};
}

/// The time that is left of a Wait.
class Deadline {
public:
    explicit Deadline(const Wait& wait) : wait_(wait) {
        if (wait.timeout_ms > 0) end_ = Clock::now() + std::chrono::milliseconds(wait.timeout_ms);
    }
    bool is_endless() const noexcept { return wait_.timeout_ms < 0; }
    /// Whether it may wait at all.
    bool is_patient() const noexcept { return wait_.timeout_ms != 0; }
    /// Milliseconds left, as poll() takes them.
    int left() const {
        if (is_endless()) return -1;
        if (wait_.timeout_ms == 0) return 0;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return left <= 0 ? 0 : left > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(left);
    }
    bool is_interrupted() const { return wait_.interrupted != nullptr && wait_.interrupted(wait_.context); }

    ISTHMUS_COLD Error timed_out(const char* what) const {
        return make_error(ErrorCode::timed_out, {what, " within ", wait_.timeout_ms, " ms"});
    }
    /// The error of a stream that stops within a message: nobody can tell where the next one begins.
    ISTHMUS_COLD Error stopped(std::size_t after, std::size_t of) const {
        return make_error(ErrorCode::timed_out,
                          {"the message stopped after ", after, " bytes of ", of, ", and the rest did not come within ",
                           wait_.timeout_ms, " ms; close the socket, since the next message cannot be found in it"});
    }
    ISTHMUS_COLD static Error interrupted() { return Error(ErrorCode::system_failed, "a signal ended the wait"); }

    /// Waits until the descriptor is ready for `events`, or for at most `max_ms` if that is not negative.
    Result<void> wait_for(int descriptor, short events, const char* what, int max_ms = -1) const {
#if defined(_WIN32)
        (void)descriptor, (void)events, (void)what, (void)max_ms;
        return unsupported();
#else
        for (;;) {
            int ms = left();
            if (ms == 0) return timed_out(what);
            if (max_ms >= 0 && (ms < 0 || ms > max_ms)) ms = max_ms;
            struct pollfd item{descriptor, events, 0};
            const int ready = ::poll(&item, descriptor >= 0 ? 1 : 0, ms);
            if (ready > 0 || (ready == 0 && max_ms >= 0)) return {};
            if (ready < 0 && errno != EINTR) return system_error("poll", errno);
            if (ready < 0 && is_interrupted()) return interrupted();
        }
#endif
    }

private:
    using Clock = std::chrono::steady_clock;
    Wait wait_;
    Clock::time_point end_{};
};

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
        return make_error(ErrorCode::bad_argument, {"argument 'socket': descriptor ", socket, " is not a socket"});
    if (name.sun_family != AF_UNIX || (type != SOCK_SEQPACKET && type != SOCK_STREAM))
        return Error(ErrorCode::bad_argument,
                     "argument 'socket': of another kind; expected a Unix socket, SEQPACKET or STREAM");
    return type == SOCK_STREAM ? SocketKind::stream : SocketKind::packets;
}

/// Sends what is left of `bytes`, `file` with the first of them. Once a byte is sent the rest must follow, however long
/// it takes.
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
        } else if (number ==
                   ETOOMANYREFS) {  // too many descriptors are in flight: the receivers have to take some first
            if (auto ready = left.wait_for(-1, 0, "the receivers did not read", 1); !ready) return ready;
        } else {
            return system_error("sendmsg", number);
        }
    }
    return {};
}

/// The result of one recvmsg() besides bytes.
struct Arrived {
    File file;                ///< the first that came; all others are closed
    std::size_t files = 0;    ///< how many came
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
            File came(descriptor);
            if (arrived.files++ == 0) arrived.file = std::move(came);
        }
    }
    arrived.lost_files |= (message.msg_flags & MSG_CTRUNC) != 0;
    arrived.cut |= (message.msg_flags & MSG_TRUNC) != 0;
}

/// Up to `size` bytes; 0 when the peer is gone.
inline Result<std::size_t> receive_some(int socket, char* to, std::size_t size, const Deadline& deadline,
                                        Arrived& arrived) {
    for (;;) {
        struct iovec part{to, size};
        alignas(struct cmsghdr) char
            control[CMSG_SPACE(253 * sizeof(int))];  // SCM_MAX_FD: all that can come with one message
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

ISTHMUS_COLD inline Error peer_closed() {
    return Error(ErrorCode::peer_closed, "the sender is gone, or has closed its end");
}

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
    if (*count == 0 && arrived.files == 0 && is_closed(socket)) return peer_closed();
    if (*count < sizeof(Header))
        return bad_message({"the message has ", *count, " bytes; expected at least ", sizeof(Header)});
    if (auto good = check_header(m.header); !good) return good;
    if (arrived.cut || *count != m.length())
        return bad_message({"the message has ", arrived.cut ? "more than " : "", *count, " bytes; expected the ",
                            m.length(), " that it says"});
    return {};
}

/// Bytes [from, to) of the message, from a stream.
inline Result<void> receive_stream_part(int socket, Message& m, std::size_t from, std::size_t to,
                                        const Deadline& deadline, Arrived& arrived) {
    while (from < to) {
        Result<std::size_t> count =
            receive_some(socket, reinterpret_cast<char*>(&m) + from, to - from, deadline, arrived);
        if (!count && from != 0 && count.error().code() == ErrorCode::timed_out) return deadline.stopped(from, to);
        if (!count) return std::move(count).error();
        if (*count == 0 && from == 0) return peer_closed();
        if (*count == 0)
            return bad_message({"the message ends after ", from, " bytes, since the sender is gone; expected ", to});
        from += *count;
    }
    return {};
}

inline Result<void> receive_stream(int socket, Message& m, const Wait& wait, Arrived& arrived) {
    const Deadline deadline(wait);
    if (auto read = receive_stream_part(socket, m, 0, sizeof(Header), deadline, arrived); !read) return read;
    if (auto good = check_header(m.header); !good) return good;
    return receive_stream_part(socket, m, sizeof(Header), m.length(), deadline, arrived);
}

/// One whole message and its descriptor. Whatever else came with it is closed.
inline Result<File> receive_message(int socket, Message& m, const Wait& wait) {
    const Result<SocketKind> kind = socket_kind(socket);
    if (!kind) return kind.error();
    Arrived arrived;
    auto read = *kind == SocketKind::stream ? receive_stream(socket, m, wait, arrived)
                                            : receive_packet(socket, m, wait, arrived);
    if (!read) return std::move(read).error();
    if (arrived.lost_files)
        return Error(ErrorCode::system_failed,
                     "the descriptor of the message is lost: this process has as many open as it may (RLIMIT_NOFILE)");
    if (arrived.files != 1) return bad_message({"the message came with ", arrived.files, " descriptors; expected one"});
    return std::move(arrived.file);
}

#endif

}  // namespace shared::impl

ISTHMUS_END
