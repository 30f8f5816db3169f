/* Shared memory between processes, in C: a tensor made here can be opened by C++, Python, Rust or Java there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What isthmus/c/isthmus.h says of errors, ownership, threads and units holds here too. Only host memory is handed
 * over; the elements are never copied but by isthmus_shared_share(). If a system has no such memory, every call is
 * ISTHMUS_UNAVAILABLE. */
#ifndef ISTHMUS_C_SHARED_H
#define ISTHMUS_C_SHARED_H

#include <isthmus/c/isthmus.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The most that a receiver may do; each includes those before it. */
enum {
    ISTHMUS_READ_ONLY_ACCESS = 0,     /* read the sender's pages */
    ISTHMUS_COPY_ON_WRITE_ACCESS = 1, /* write too; a page that is written becomes the receiver's own */
    ISTHMUS_SHARED_ACCESS = 2,        /* both write the same pages */
    ISTHMUS_OFFERED_ACCESS = 3        /* to isthmus_shared_receive(): whatever the sender allows */
};

/* Shared memory that is recycled when the last view of it in any process is gone. Who receives one of its tensors may
 * read all of it. */
typedef struct isthmus_pool isthmus_pool;

/* A pool that reserves at most `limit` bytes, 0 for no limit. Released once with isthmus_shared_pool_release(); tensors
 * keep their memory, not the pool. */
ISTHMUS_C_API isthmus_status isthmus_shared_pool_create(uint64_t limit, isthmus_pool** out) ISTHMUS_C_NOEXCEPT;
/* Releases the pool; tensors of it stay. */
ISTHMUS_C_API isthmus_status isthmus_shared_pool_release(isthmus_pool* pool) ISTHMUS_C_NOEXCEPT;

/* New memory of `pool`, or of the process's own if that is NULL: row-major, writable, at the beginning of a page, its
 * content undefined. `access` is what it is meant for: sent with ISTHMUS_SHARED_ACCESS against that it moves once, with
 * a copy. Waits at most `timeout_ms` for memory to come back if the limit is reached: 0 for not at all, negative for as
 * long as it takes. ISTHMUS_OUT_OF_MEMORY or ISTHMUS_TIMED_OUT if there is none. */
ISTHMUS_C_API isthmus_status isthmus_shared_empty(isthmus_pool* pool, const int64_t* shape, int32_t ndim,
                                                  isthmus_dtype dtype, int32_t access, int64_t timeout_ms,
                                                  isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;
/* The same with the elements of `tensor`; dense strides are kept. A reference on `tensor` where its memory is shared
 * already.
 */
ISTHMUS_C_API isthmus_status isthmus_shared_share(isthmus_pool* pool, isthmus_tensor* tensor, int32_t access,
                                                  int64_t timeout_ms, isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* Sends the tensor over a connected Unix socket (SEQPACKET or STREAM). Its memory must be shared, else
 * ISTHMUS_NEEDS_COPY. The reference stays the caller's and may be released at once. ISTHMUS_PEER_CLOSED when nobody is
 * at the other end. */
ISTHMUS_C_API isthmus_status isthmus_shared_send(int socket, isthmus_tensor* tensor, int32_t access,
                                                 int64_t timeout_ms) ISTHMUS_C_NOEXCEPT;
/* The next tensor of the socket. ISTHMUS_BAD_MESSAGE for what is not as it says, and the next one can be received;
 * ISTHMUS_PEER_CLOSED when there will be none. */
ISTHMUS_C_API isthmus_status isthmus_shared_receive(int socket, int32_t access, int64_t timeout_ms,
                                                    isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
