// The end of a block and of its owner, and blocks that describe the memory of another.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/block.h>

#include "observer.h"

ISTHMUS_BEGIN

namespace detail {

/// The releases under way on one thread, each inside the one before.
struct Releases {
    int depth;
    std::uintptr_t innermost;  ///< the place on the stack of the last one that began
    Block* waiting;            ///< blocks whose turn comes when the innermost is done, linked through `wrapper`
};
ISTHMUS_STATE constinit ISTHMUS_THREAD_STATE Releases releases{};
/// So many as fit the smallest stack that threads are given, whatever frameworks lie between two of them.
inline constexpr int deepest_release = 16;

static void release_owner(Block* block) noexcept {
    run_release(block->ops->release, block->owner);
    std::free(block);
}

ISTHMUS_COLD static void release_waiting(Releases& here) noexcept {
    while (Block* next = here.waiting) {
        here.waiting = static_cast<Block*>(next->wrapper.load_relaxed());
        release_owner(next);
    }
}

/// The owner may be the last to hold another tensor, whose owner may hold a third: a chain of any length is released
/// without a recursion of its length. `here` is this thread's `releases`, which are looked up once.
ISTHMUS_NOINLINE static void end_block(Block* block, Releases& here) noexcept {
    const auto place = reinterpret_cast<std::uintptr_t>(ISTHMUS_FRAME_ADDRESS());
    int depth = here.depth;
    if (ISTHMUS_UNLIKELY(depth >= deepest_release)) {
        // Stacks grow down. A release that began further down is none that this one lies in: it was left suspended (a
        // greenlet, a fiber), and so perhaps were all the others.
        if (place < here.innermost) {
            block->wrapper.store_relaxed(here.waiting);
            here.waiting = block;
            return;
        }
        depth = 0;
    }
    here.depth = depth + 1;
    here.innermost = place;
    release_owner(block);
    if (ISTHMUS_UNLIKELY(here.waiting != nullptr)) release_waiting(here);
    here.depth = depth;  // not one less: those that are suspended end in any order
}

/// Most owners have other references left, or free memory and no more: nothing ends with them that a chain could grow
/// from.
ISTHMUS_ALWAYS_INLINE static bool release_shared(const Block* block) noexcept {
    const OwnerOps& ops = *block->ops;
    return ops.size > offsetof(OwnerOps, release_shared) && ops.release_shared != nullptr &&
           ops.release_shared(block->owner);
}

void destroy_block(Block* block) noexcept {
    if (ISTHMUS_UNLIKELY(block->flags & observed_flag))
        if (const Observer* o = last_observer.load_acquire()) o->destroyed(block);  // also when it listens no more
    if (block->ops->release == nullptr || release_shared(block))
        std::free(block);
    else
        end_block(block, releases);
}

bool owns_memory(const Block* block) noexcept {
    const Block* root = root_of(block);
    const OwnerOps& ops = *root->ops;
    if (ops.release == nullptr) return (root->flags & unowned_flag) == 0;  // the elements lie behind the block
    return ops.size > offsetof(OwnerOps, owns_memory) && ops.owns_memory;
}

Block* private_pages(const Block* block) noexcept {
    const Block* root = root_of(block);
    const OwnerOps& ops = *root->ops;
    if (ops.size <= offsetof(OwnerOps, private_pages) || ops.private_pages == nullptr) return nullptr;
    return ops.private_pages(root->owner, block);
}

void notify_observer(Block* block) noexcept {
    block->flags |= observed_flag;
    if (const Observer* o = observer.load_acquire()) o->created(block);
}

Block* alias_block(Block* block, const DLTensor& t, Flags flags, const OwnerOps& ops) noexcept {
    Block* alias = allocate_block(t.ndim);
    if (ISTHMUS_UNLIKELY(alias == nullptr)) return nullptr;
    const Flags passed_on = block->flags & (ordering_flags | unowned_flag | tracked_flag);
    Block* root = root_of(block);
    alias->stream = block->stream;
    // The part of memory that nothing keeps is as good as the whole: whoever answers for the memory may tie it to the
    // object that shows the part. One that shows the whole may have been tied to it already.
    if (ISTHMUS_UNLIKELY(passed_on & unowned_flag) && root->wrapper.load_relaxed() == nullptr) {
        describe(alias, t, flags | passed_on);
        return announce(alias);
    }
    describe(alias, t, flags | alias_flag | passed_on);
    retain(root);
    alias->owner = root;
    alias->ops = &ops;
    return announce(alias);
}

}  // namespace detail

ISTHMUS_END
