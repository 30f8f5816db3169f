// The end of a block and of its owner, and blocks that describe the memory of another.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/block.h>

#include "observer.h"

ISTHMUS_BEGIN

namespace detail {

/// The releases under way on one thread, each inside the one before.
struct Releases {
    int depth;
    Block* waiting;  ///< blocks whose turn comes when all of those are done, linked through `wrapper`
};
ISTHMUS_STATE constinit ISTHMUS_THREAD_STATE Releases releases{};
/// So many as fit the smallest stack that threads are given, whatever frameworks lie between two of them.
inline constexpr int deepest_release = 16;

static void release_owner(Block* block) noexcept {
    run_release(block->ops->release, block->owner);
    std::free(block);
}

/// The owner may be the last to hold another tensor, whose owner may hold a third: a chain of any length is released
/// without a recursion of its length. `here` is this thread's `releases`, which are looked up once.
ISTHMUS_NOINLINE static void end_block(Block* block, Releases& here) noexcept {
    if (ISTHMUS_UNLIKELY(here.depth >= deepest_release)) {
        block->wrapper.store_relaxed(here.waiting);
        here.waiting = block;
        return;
    }
    ++here.depth;
    release_owner(block);
    if (here.depth == 1)
        while (Block* next = here.waiting) {
            here.waiting = static_cast<Block*>(next->wrapper.load_relaxed());
            release_owner(next);
        }
    --here.depth;
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
    describe(alias, t, flags | alias_flag | (block->flags & (ordering_flags | unowned_flag | tracked_flag)));
    alias->stream = block->stream;
    Block* root = root_of(block);
    retain(root);
    alias->owner = root;
    alias->ops = &ops;
    return announce(alias);
}

}  // namespace detail

ISTHMUS_END
