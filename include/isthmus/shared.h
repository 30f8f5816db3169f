// Shared memory between processes: segments, pools, and tensors that are handed over without their bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include <isthmus/isthmus.h>
#include <isthmus/shared/access.h>

ISTHMUS_BEGIN

namespace shared {

namespace impl {
struct SegmentState;
struct PoolState;
}  // namespace impl

/// How long a call may wait for the other process.
struct Wait {
    /// Milliseconds: negative for as long as it takes, 0 for not at all.
    std::int64_t timeout_ms = -1;
    /// Called with `context` whenever a signal has arrived: true ends the call with an Error. May be NULL, and throws
    /// nothing.
    bool (*interrupted)(void* context) = nullptr;
    void* context = nullptr;  ///< handed to `interrupted`
};

/// How much memory a Pool may keep.
struct PoolOptions {
    /// Bytes that the pool may reserve; a request beyond them waits for what is lent, and then fails.
    std::size_t limit = SIZE_MAX;
    /// Bytes of unused whole segments that are kept for later; filling fresh memory is some ten times slower.
    std::size_t idle_limit = std::size_t{1} << 30;
};

/// The present content of a Pool, as Pool::stats() counts it.
struct PoolStats {
    std::size_t segments = 0;  ///< memfds, one descriptor each
    std::size_t reserved = 0;  ///< their bytes
    std::size_t free = 0;      ///< bytes that can be handed out at once
    std::size_t lent = 0;      ///< slots that only other processes still use, as of the last check
};

// No type of the C++ library crosses to a module of the stable ABI, so the classes below count and end what they hold
// by these.
namespace impl {
void hold_segment(SegmentState* segment) noexcept;
void drop_segment(SegmentState* segment) noexcept;
PoolState* make_pool(const PoolOptions& options);
void end_pool(PoolState* pool) noexcept;
}  // namespace impl

/// Memory of this process that others can map: reserved whole, of a size that never changes, and without a name, so
/// that the kernel frees it when the last process that has it is gone, however it ended.
class Segment {
public:
    /// At least `nbytes` bytes, in whole pages, all zero. `max_access` is what receivers may ever be allowed: under
    /// `shared` they may map it writable, otherwise the kernel keeps every writer but this process away.
    static Result<Segment> create(std::size_t nbytes, Access max_access = Access::read_only);
    Segment(const Segment& other) noexcept : state_(other.state_) {
        if (state_ != nullptr) impl::hold_segment(state_);
    }
    Segment(Segment&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Segment& operator=(Segment other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~Segment() {
        if (state_ != nullptr) impl::drop_segment(state_);
    }

    /// The first byte of this process's mapping, at the beginning of a page.
    void* data() const noexcept;
    /// Bytes, a multiple of the page size.
    std::size_t size() const noexcept;
    /// The memfd, for system calls; it stays this object's.
    int descriptor() const noexcept;
    /// Whether `shared` may be allowed.
    bool allows_writers() const noexcept;
    /// A row-major tensor that begins `byte_offset` bytes into the segment and keeps it alive.
    Result<Tensor> tensor(const Shape& shape, DType dtype, std::size_t byte_offset = 0) const;

private:
    explicit Segment(impl::SegmentState* state) noexcept : state_(state) {}
    impl::SegmentState* state_;  ///< NULL after a move
};

/// Shared memory for many tensors, recycled: few segments and descriptors, and warm pages. A slot comes back with the
/// last view of it in any process, also when a receiver is killed. Tensors keep their memory alive, not the pool.
///
/// Receivers map the whole segment that a tensor lies in, so a process that gets one tensor of a pool may read all of
/// it: use a pool for each group of processes that trust each other that far.
class Pool {
public:
    explicit Pool(PoolOptions options = {}) : state_(impl::make_pool(options)) {}
    Pool(Pool&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Pool& operator=(Pool&&) = delete;
    ~Pool() {
        if (state_ != nullptr) impl::end_pool(state_);
    }

    /// A new, row-major, writable tensor at the beginning of a page; what it holds is not defined. `max_access` is the
    /// access that it is meant for: memory moves once, with a copy, if send() is called with another kind. If the
    /// pool's limit is reached the call waits for memory that others still use.
    Result<Tensor> empty(const Shape& shape, DType dtype, Access max_access = Access::read_only,
                         const Wait& wait = {.timeout_ms = 0});

    /// A copy of host memory, by request. Strides stay as they are if the elements lie dense, in whatever order of
    /// dimensions and direction; anything else becomes row-major.
    Result<Tensor> share(const Tensor& tensor, Access max_access = Access::read_only,
                         const Wait& wait = {.timeout_ms = 0});

    /// The pool's numbers now, in O(segments).
    PoolStats stats() const;

    /// Takes back all that is no longer lent, and releases unused segments to the system.
    void trim();

    /// The one of this process, without a limit; never destroyed.
    static Pool& process();

private:
    impl::PoolState* state_;  ///< NULL after a move
};

/// As Pool::empty(), from the process's own pool.
Result<Tensor> empty(const Shape& shape, DType dtype, Access max_access = Access::read_only);

/// Whether send() can hand the elements over without a copy.
bool is_shared(const Tensor& tensor);

/// The tensor in memory that can be sent: as it is if it is there already, else a copy in the pool, as Pool::share()
/// makes it.
Result<Tensor> share(const Tensor& tensor, Access max_access = Access::read_only, Pool& pool = Pool::process(),
                     const Wait& wait = {.timeout_ms = 0});

/// Hands a tensor to the process at the other end of a Unix socket (SEQPACKET or STREAM), in O(1): one message of a
/// hundred bytes or so and one descriptor. Its memory must be in a segment: made by empty() or share(), by a Segment,
/// or received. `access` is the most that the receiver may take. The memory stays lent until the receiver's last view
/// is gone. A view of the tensor, of any shape and strides, is as good as the whole.
///
/// Waits while the socket is full, as long as `wait` says.
Result<void> send(int socket, const Tensor& tensor, Access access, const Wait& wait = {});

/// Takes the next tensor from a Unix socket, with what the sender allows, or with less if `access` says so. Everything
/// that came is checked before it is mapped, so that nothing the sender does can make an access fail: an Error of code
/// `bad_message` says what is wrong, and the next message can be received. `peer_closed` means that there will be none.
Result<Tensor> receive(int socket, std::optional<Access> access = {}, const Wait& wait = {});

}  // namespace shared

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/shared.h>
#endif

#if defined(ISTHMUS_IMPLEMENTATION)
#if __has_include("src/shared.cpp")
#include "src/shared.cpp"  // as installed
#else
#include "../../src/shared.cpp"
#endif
#endif
