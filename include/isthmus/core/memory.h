// The memory of new tensors: from malloc, from a cache of dropped large tensors, or from a program's own allocator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <isthmus/core/compiler.h>

ISTHMUS_BEGIN

/// Gives the memory of new tensors in place of malloc (set_allocator()): mimalloc's, a pool, pinned memory of the host.
/// Both functions may be called on any thread, with or without the GIL, and must not throw.
struct Allocator {
    /// `bytes` of memory at a multiple of `alignment`, a power of two from 64 on; NULL if there is none.
    void* (*allocate)(std::size_t bytes, std::size_t alignment, void* context) noexcept;
    /// Releases memory of allocate(), with the same `bytes`.
    void (*release)(void* memory, std::size_t bytes, void* context) noexcept;
    void* context = nullptr;  ///< handed to both
};

/// Has `allocator` give the memory of every tensor that this shared object makes from now on (Tensor::empty, copy_of,
/// contiguous, empty_like on the host); NULL for the default again. The allocator must live as long as any memory
/// of it: a tensor goes back to the one that it came from. O(1), on any thread.
void set_allocator(const Allocator* allocator) noexcept;

/// How many bytes of dropped tensors this shared object keeps at most, 512 MiB by default (none under
/// AddressSanitizer), 0 for none; memory beyond that is released at once: when the call returns, no more is kept,
/// whatever other threads do. Memory from 64 KiB on is kept, and a new tensor of about that size is made of it: it is
/// filled without the faults of fresh pages. Blocks of 32 MiB and more the system may take when it runs short
/// (madvise(2), MADV_FREE).
void set_cached_memory(std::size_t most) noexcept;

/// Releases kept memory to the system until at most `keep` bytes are left, those that were dropped last; the number of
/// bytes released. On any thread.
std::size_t trim(std::size_t keep = 0) noexcept;

ISTHMUS_END
