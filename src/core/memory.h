// The memory of new tensors, and blocks of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/block.h>
#include <isthmus/core/memory.h>

ISTHMUS_BEGIN

namespace detail {

/// The elements of one tensor, and their release.
struct NewMemory {
    const Allocator* allocator;  ///< NULL: malloc's
    void* start;
    std::size_t bytes;
};

/// From how many bytes on memory is worth keeping: malloc returns smaller pieces to the system once many are free.
inline constexpr std::size_t large_memory = std::size_t{1} << 16;
/// From how many bytes on huge pages are requested.
inline constexpr std::size_t huge_memory = std::size_t{1} << 22;

/// Memory whose first multiple of `alignment` has `bytes` behind it; no start if there is none. `bytes` are large, or
/// the program has an allocator.
NewMemory take_memory(std::size_t bytes, std::size_t alignment) noexcept;
void release_memory(const NewMemory& memory) noexcept;
/// Whether elements of so many bytes come from take_memory(), rather than from the allocation of their block.
bool needs_separate_storage(std::size_t bytes) noexcept;

/// Takes the memory of new elements back, which a block's owner describes.
void release_new_memory(void* memory);
/// A block of new elements that lie as `t` says, whose data it gets; the caller notifies the observers. Throws Error.
/// nbytes: of all elements; alignment: a power of two from 64 on.
Block* new_elements(DLTensor& t, Flags flags, std::int64_t nbytes, std::size_t alignment);

}  // namespace detail

ISTHMUS_END
