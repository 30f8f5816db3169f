// The one allocation behind a Tensor, and what is known of whatever owns its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include <isthmus/core/compiler.h>
#include <isthmus/core/deleter.h>
#include <isthmus/core/device.h>
#include <isthmus/core/layout.h>

ISTHMUS_BEGIN

namespace detail {

struct Block;

/// The operations of a block's owner. One constant table per kind of owner, in the shared object that
/// made the block; any other extension calls through it without knowing what the owner is.
/// Part of the shared ABI: fields are only ever added at the end, and read only if `size` includes them.
struct OwnerOps {
    std::uint32_t size = sizeof(OwnerOps);
    /// The framework of array()'s objects, by the numbers of the layer above; 0 if the object's type decides.
    std::uint32_t framework = 0;
    /// Releases the owner, on any thread; NULL if there is nothing to release.
    void (*release)(void* owner) = nullptr;
    /// The object of the layer above to which the owner holds a reference, borrowed; NULL if it holds none.
    void* (*source)(void* owner) noexcept = nullptr;
    /// The array object that the tensor was made from, a new reference or NULL; NULL if it was not made from an array.
    void* (*array)(void* owner) noexcept = nullptr;
    /// The framework's own tensor behind the owner (an at::Tensor), borrowed; NULL if there is none.
    const void* (*native)(void* owner) noexcept = nullptr;
    /// Whose memory it is, if there is no source: "torch.Tensor"; NULL for C++.
    const char* producer = nullptr;
    /// Releases the owner if no foreign code runs: if that decrements a count that others share, or frees memory that
    /// is ours. False, and nothing released, if this may be the last reference; NULL if that cannot be determined.
    bool (*release_shared)(void* owner) noexcept = nullptr;
    /// The memory is the owner's own. False if the owner was merely declared to keep it.
    bool owns_memory = false;
    /// The elements of read-only `block`, whose root the owner keeps, in pages of this process alone that may be
    /// written: a new block with one reference, or NULL. Writes to it are visible neither in `block` nor in its source.
    Block* (*private_pages)(void* owner, const Block* block) noexcept = nullptr;
};
inline constexpr OwnerOps no_owner_ops{};
/// The operations of an owner that has nothing to do with the layer above.
template <void (*release_)(void*), bool owns_memory_ = false, bool (*release_shared_)(void*) noexcept = nullptr>
inline constexpr OwnerOps plain_owner_ops = [] {  // no designated initialisers: nvcc 12 fails at those of a template
    OwnerOps ops;
    ops.release = release_;
    ops.release_shared = release_shared_;
    ops.owns_memory = owns_memory_;
    return ops;
}();

/// The stream of the work on a block's memory.
union StreamSource {
    std::int64_t number;  ///< with stream_flag: by the numbers of `__dlpack__(stream=)`
    void* producer;  ///< with producer_flag: the object of the layer above that alone knows it, borrowed from the owner
};

/// The one allocation behind a Tensor: the descriptor, the count, the owner; shape and strides follow in the same
/// memory. `dl.strides` is never NULL, and `dl.byte_offset` is 0 except on devices whose `data` is a handle. Part of
/// the ABI shared by extensions with the same ISTHMUS_ABI (docs/abi.md).
struct Block {
    DLTensor dl;
    Atomic<std::uint32_t> refs;
    std::uint32_t
        wrapper_aliases;  // aliases that also hold the isthmus.Tensor that shows this block; guarded by the GIL
    Flags flags;
    const OwnerOps* ops;  // never NULL
    void* owner;
    Atomic<void*> wrapper;  // the isthmus.Tensor that shows this block now, borrowed; guarded by the GIL
    StreamSource stream;    // of the work on the memory; stream_flag and producer_flag say which member is set

    std::int64_t* dims() noexcept { return reinterpret_cast<std::int64_t*>(this + 1); }
};

/// A tensor of the list of live tensors, as it is shown to a callback; everything in it is valid only during that call.
struct LiveRecord {
    const Block* block;
    std::uint64_t serial;  ///< its number, in order of creation
    double age;            ///< seconds since it was made
    const char* producer;  ///< whose memory it is: "torch.Tensor"; NULL for C++
    const char* consumer;  ///< who was handed it last: "numpy"; NULL for nobody but C++
    const char* place;     ///< with tracing: where Python was; else NULL
    void* const* frames;   ///< with tracing: return addresses, innermost first
    int frame_count;
};

/// Notified when a block is made and when it is destroyed (isthmus/core/live.h). Part of the ABI shared by extensions
/// with the same ISTHMUS_ABI: one of them listens for all. Threads that have not yet seen that it stopped listening may
/// still call any function, so `created` may come late; `destroyed` is called for each block that was reported, even
/// then.
struct Observer {
    void (*created)(Block*) noexcept;
    void (*destroyed)(Block*) noexcept;  ///< before its owner is released
    void (*consumed)(const Block*, const char* consumer) noexcept;
    /// Shows every record while the list is locked: `show` makes no tensor, drops none, and takes no other lock.
    void (*visit)(void* context, void (*show)(void* context, const LiveRecord&));
    void (*listen)(bool tracing) noexcept;  ///< before the first call of `created`
    void (*forget)() noexcept;              ///< empties the list, which stays empty until it listens again
};
#if defined(ISTHMUS_BACKEND)
Atomic<const Observer*>& current_observer() noexcept;
#else
ISTHMUS_STATE Atomic<const Observer*> observer;
inline Atomic<const Observer*>& current_observer() noexcept { return observer; }
#endif

inline constexpr Flags observed_flag = Flags{1} << 32;
inline constexpr Flags unowned_flag = Flags{1} << 33;  ///< nothing keeps the memory: the caller answers for it
inline constexpr Flags alias_flag = Flags{1} << 34;    ///< the owner is another block, which is not an alias itself
inline constexpr Flags stream_flag = Flags{1} << 35;   ///< `stream.number` is known
/// Automatic differentiation watches the tensor that this memory was imported from: the memory is read-only for its
/// sake.
inline constexpr Flags tracked_flag = Flags{1} << 36;
/// Of a Borrowed: the framework has not been notified of a coming write.
inline constexpr Flags unannounced_flag = Flags{1} << 37;
inline constexpr Flags wrapper_alias_flag = Flags{1}
                                            << 38;  ///< an alias that is counted in its root's `wrapper_aliases`
/// `stream.producer` is known, which orders another stream after its own on request.
inline constexpr Flags producer_flag = Flags{1} << 39;
inline constexpr Flags ordering_flags = stream_flag | producer_flag;

/// The end of a block that nobody refers to any more.
void destroy_block(Block* block) noexcept;

inline void retain(Block* block) noexcept { block->refs.retain(); }
inline void drop(Block* block) noexcept {
    if (block->refs.load_acquire() == 1 || block->refs.release()) destroy_block(block);
}

inline void place_dims(Block* block, int ndim, std::int64_t* at) noexcept {
    block->dl.ndim = ndim;
    block->dl.shape = at;
    block->dl.strides = at + ndim;
}
inline void init_block(Block* block, int ndim, std::int64_t* dims) noexcept {
    ::new (&block->refs) Atomic<std::uint32_t>(1);
    block->wrapper_aliases = 0;
    block->flags = 0;
    block->ops = &no_owner_ops;
    block->owner = nullptr;
    ::new (&block->wrapper) Atomic<void*>(nullptr);
    place_dims(block, ndim, dims);
}

/// A block with room for the dims and `extra` bytes behind them; NULL when memory is out. The caller fills `dl` and the
/// owner.
inline Block* allocate_block(int ndim, std::size_t extra = 0) noexcept {
    // glibc keeps small blocks per thread: our own recycler was measured, and gained nothing.
    auto* block = static_cast<Block*>(
        std::malloc(sizeof(Block) + 2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t) + extra));
    if (ISTHMUS_UNLIKELY(block == nullptr)) return nullptr;
    init_block(block, ndim, block->dims());
    return block;
}

/// Copies a checked descriptor into the block: offset folded in, strides written out.
inline void describe(Block* block, const DLTensor& t, Flags flags) noexcept {
    const int ndim = t.ndim;
    block->flags = flags;
    block->dl.dtype = t.dtype;
    block->dl.device = t.device;
    const bool opaque = Device(t.device).is_opaque();
    block->dl.data = t.data == nullptr || opaque ? t.data : static_cast<char*>(t.data) + t.byte_offset;
    block->dl.byte_offset = opaque ? t.byte_offset : 0;
    std::int64_t* shape = block->dl.shape;
    std::int64_t* strides = block->dl.strides;
    for (int i = 0; i < ndim; ++i) shape[i] = t.shape[i];
    if (t.strides != nullptr)
        for (int i = 0; i < ndim; ++i) strides[i] = t.strides[i];
    else
        (void)layout::row_major(shape, ndim, strides);
}

/// The block that holds the owner: the block itself, or the one that it is an alias of.
inline Block* root_of(Block* block) noexcept {
    return block->flags & alias_flag ? static_cast<Block*>(block->owner) : block;
}
inline const Block* root_of(const Block* block) noexcept { return root_of(const_cast<Block*>(block)); }

/// The object of the layer above that keeps the memory, borrowed; NULL if none does.
inline void* source_of(const Block* block) noexcept {
    const Block* root = root_of(block);
    return root->ops->source != nullptr ? root->ops->source(root->owner) : nullptr;
}

/// Whether the memory lives as long as the block does, independently of others: an owner merely named may be a function
/// that needs other memory.
bool owns_memory(const Block* block) noexcept;
/// The elements in pages that may be written and that nobody else sees, for a consumer that knows no read-only memory:
/// a new block, or NULL if the memory has no private pages.
Block* private_pages(const Block* block) noexcept;

void notify_observer(Block* block) noexcept;
/// Tells the listener, if there is one, of a block that is complete.
inline Block* announce(Block* block) noexcept {
    if (ISTHMUS_UNLIKELY(current_observer().load_relaxed() != nullptr)) notify_observer(block);
    return block;
}

/// Says on which stream the work on the memory is.
inline void set_stream(Block* block, std::int64_t number) noexcept {
    block->stream.number = number;
    block->flags = (block->flags & ~producer_flag) | stream_flag;
}

/// Ends a managed tensor of DLPack, of either layout, that is the owner of a block.
template <class Managed>
void end_owner_managed(void* owner) noexcept;

inline void drop_root(void* block) { drop(static_cast<Block*>(block)); }

/// Another description of the memory that `block` keeps alive: `t` is sound and lies within it. NULL when memory is
/// out. A chain of views of views is flat: each holds the root alone. `ops` release the root, and what goes with it.
Block* alias_block(Block* block, const DLTensor& t, Flags flags,
                   const OwnerOps& ops = plain_owner_ops<drop_root>) noexcept;

/// Tells the listener, if there is one, who was handed the block.
inline void note_consumer(const Block* block, const char* consumer) noexcept {
    if (ISTHMUS_UNLIKELY(current_observer().load_relaxed() != nullptr))
        if (const Observer* o = current_observer().load_acquire()) o->consumed(block, consumer);
}

}  // namespace detail

ISTHMUS_END
