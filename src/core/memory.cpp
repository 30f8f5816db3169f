// The memory of new tensors: from malloc, from a cache of dropped large tensors, or from a program's own allocator.
// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "memory_cache.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_STATE constinit Atomic<const Allocator*> allocator{nullptr};

ISTHMUS_STATE constinit MemoryCache memory_cache;

static MemoryCache& cache() noexcept {
    static const struct Use {
        Use() noexcept {
            around_forks([] { memory_cache.before_fork(); }, [] { memory_cache.after_fork(); },
                         [] { memory_cache.after_fork(); });
        }
        ~Use() { memory_cache.end(); }
    } use;
    return memory_cache;
}

bool needs_separate_storage(std::size_t bytes) noexcept {
    return ISTHMUS_UNLIKELY(bytes >= large_memory) ||
           (ISTHMUS_UNLIKELY(allocator.load_relaxed() != nullptr) && bytes > 0);
}

NewMemory take_memory(std::size_t bytes, std::size_t alignment) noexcept {
    if (const Allocator* given = allocator.load_acquire())
        return {given, given->allocate(bytes, alignment, given->context), bytes};
    const std::size_t all = bytes + alignment - 1;
    NewMemory memory = cache().take(all);
    if (memory.start != nullptr) return memory;
    memory = {nullptr, std::malloc(all), all};
    if (memory.start != nullptr && bytes >= huge_memory) prefer_huge_pages(memory.start, memory.bytes);
    return memory;
}

void release_memory(const NewMemory& memory) noexcept {
    if (memory.allocator != nullptr)
        return memory.allocator->release(memory.start, memory.bytes, memory.allocator->context);
    if (!cache().put(memory)) std::free(memory.start);
}

}  // namespace detail

void set_allocator(const Allocator* allocator) noexcept { detail::allocator.store(allocator); }
void set_cached_memory(std::size_t most) noexcept { detail::cache().set_most(most); }
std::size_t trim(std::size_t keep) noexcept {
    const std::size_t released = detail::cache().trim(keep);
#if defined(__GLIBC__)
    if (released > 0) (void)malloc_trim(0);  // free() keeps the pieces that malloc has not mapped apart
#endif
    return released;
}

ISTHMUS_END
