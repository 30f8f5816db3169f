// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include <isthmus/core/atomic.h>
#include <isthmus/core/deleter.h>
#include <isthmus/core/observer.h>
#include <isthmus/core/validate.h>

ISTHMUS_BEGIN

namespace detail {

struct Block;

/// What `Block::owner` is, so that the way back to Python can be the very same object.
enum class Origin : std::uint32_t {
    none,           ///< memory of C++, or a capsule
    python_object,  ///< the PyObject whose memory this is, a strong reference
    python_owner,   ///< a PyObject that only keeps the memory alive
    buffer,         ///< a Py_buffer; its `obj` is the PyObject
    sourced,        ///< a Sourced (isthmus/python/borrowed.h), which knows the PyObject
    torch_handle,   ///< libtorch's AtenTensorHandle (stable shims)
    at_tensor,      ///< an AtTensorOwner (isthmus/python/framework/torch/import.h): an at::Tensor, libtorch linked
};

/// The one allocation behind a Tensor: the descriptor, the count, the owner; shape and strides follow in the same memory.
/// `dl.strides` is never NULL, and `dl.byte_offset` is 0 save on devices whose `data` is a handle.
/// Part of the ABI shared by extensions with the same ISTHMUS_ABI.
struct Block {
    DLTensor dl;
    Atomic<std::uint32_t> refs;
    Origin origin;
    Flags flags;
    void (*release)(void* owner);  // gives the owner back; may be NULL
    void* owner;
    void* python;  // the isthmus.Tensor that shows this block now, borrowed; guarded by the GIL

    std::int64_t* dims() noexcept { return reinterpret_cast<std::int64_t*>(this + 1); }
};

inline constexpr Flags observed_flag = Flags{1} << 32;
inline constexpr Flags unowned_flag = Flags{1} << 33;  ///< nothing keeps the memory: the caller answers for it

inline void destroy_block(Block* block) noexcept {
    if (ISTHMUS_UNLIKELY(block->flags & observed_flag))
        if (const Observer* o = observer.load_acquire()) o->destroyed(block);
    if (block->release != nullptr) run_release(block->release, block->owner);
    std::free(block);
}

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
    block->origin = Origin::none;
    block->flags = 0;
    block->release = nullptr;
    block->owner = nullptr;
    block->python = nullptr;
    place_dims(block, ndim, dims);
}

/// A block with room for the dims and `extra` bytes behind them; NULL when memory is out. The caller fills `dl` and the owner.
inline Block* allocate_block(int ndim, std::size_t extra = 0) noexcept {
    // glibc keeps small blocks per thread: a recycler of our own was measured, and gained nothing.
    auto* block =
        static_cast<Block*>(std::malloc(sizeof(Block) + 2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t) + extra));
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

ISTHMUS_COLD inline void announce_to_observer(Block* block) noexcept {
    block->flags |= observed_flag;
    if (const Observer* o = observer.load_acquire()) o->created(block);
}
/// Tells the listener, if there is one, of a block that is complete.
inline Block* announce(Block* block) noexcept {
    if (ISTHMUS_UNLIKELY(observer.load_relaxed() != nullptr)) announce_to_observer(block);
    return block;
}

/// Tells the listener, if there is one, who was handed the block.
inline void note_consumer(const Block* block, const char* consumer) noexcept {
    if (ISTHMUS_UNLIKELY(observer.load_relaxed() != nullptr))
        if (const Observer* o = observer.load_acquire()) o->consumed(block, consumer);
}

}  // namespace detail

ISTHMUS_END
