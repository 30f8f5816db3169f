// BorrowedBuilder: how the protocols fill a Borrowed, and how it becomes a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>
#include <isthmus/python/runtime/object_owner.h>

ISTHMUS_BEGIN

namespace detail {

struct BorrowedBuilder {
    Borrowed& b;

    DLTensor& dl() const noexcept { return b.dl_; }
    Flags& flags() const noexcept { return b.flags_; }
    Py_buffer& buffer() const noexcept { return b.buffer_; }
    /// Room for max_ndim sizes and as many strides.
    std::int64_t* shape() const noexcept { return b.shape_; }
    std::int64_t* strides() const noexcept { return b.strides_; }

    /// `kind` is stream_flag or producer_flag, and `stream` as Block::stream. After flags().
    void set_stream(std::int64_t stream, Flags kind) const noexcept {
        b.stream_ = stream;
        b.flags_ = (b.flags_ & ~ordering_flags) | kind;
    }

    /// The object that alone knows the stream. Only with producer_flag.
    static PyObject* producer_of(const Borrowed& b) noexcept {
        return reinterpret_cast<PyObject*>(static_cast<std::uintptr_t>(b.stream_));
    }

    void hold(void* owner, const OwnerOps& ops) const noexcept {
        b.owner_ = owner;
        b.ops_ = &ops;
    }
    /// Holds what buffer() was filled with.
    void hold_buffer() const noexcept { hold(nullptr, python_owners->buffer); }
    /// Keeps the Python object itself: for an owning import by a protocol that has no release of its own.
    void hold_object(PyObject* object) const noexcept { hold(new_reference(object), python_owners->array_object); }
    /// Takes over the flags that a block has beside its descriptor.
    void share_flags(const Block* block) const noexcept {
        b.flags_ = block->flags & (flag::dlpack_known | ordering_flags);
        if (ISTHMUS_UNLIKELY(block->flags & ordering_flags)) b.stream_ = block->stream;
    }
    /// Holds a block, and describes the same memory.
    void hold_block(Block* block) const noexcept {
        b.dl_ = block->dl;
        share_flags(block);
        hold(block, shared_block_ops);
    }
    /// What is held; NULL if nothing is, or a buffer.
    const void* owner() const noexcept { return b.ops_ != nullptr ? b.owner_ : nullptr; }
    /// The block that hold_block() was given; NULL if something else is held.
    Block* held_block() const noexcept { return b.ops_ == &shared_block_ops ? static_cast<Block*>(b.owner_) : nullptr; }
    /// Copies sizes and strides from the producer's memory into the Borrowed.
    ISTHMUS_ALWAYS_INLINE void keep_dims() const noexcept {
        DLTensor& t = b.dl_;
        for (int i = 0; i < t.ndim; ++i) {
            b.shape_[i] = t.shape[i];
            b.strides_[i] = t.strides[i];
        }
        t.shape = b.shape_;
        t.strides = b.strides_;
    }
    /// Releases what is held.
    void reset() const noexcept { b.reset(); }
    /// Drops what is held without releasing it: something else now owns it.
    void forget() const noexcept { b.ops_ = nullptr; }

    /// Moves what is held into a block, together with a reference to `source`, the object that was asked, if that is not what
    /// is held. False (and nothing moved) when memory is out.
    ISTHMUS_ALWAYS_INLINE bool into_block(Block*& out, PyObject* source) const noexcept {
        if (Block* held = held_block()) {
            out = held;
            b.ops_ = nullptr;
            return true;
        }
        const OwnerOps* ops = b.ops_ != nullptr ? b.ops_ : &no_owner_ops;
        const bool has_buffer = ops->source == source_of_buffer;  // known when compiling, where the owner is of libtorch
        // A buffer may belong to another object than the one asked (TensorFlow's belongs to its ndarray); the way back needs
        // the one that was asked.
        const bool has_source = source != nullptr && (ops->array == nullptr || (has_buffer && b.buffer_.obj != source));
        const std::size_t extra = (has_buffer ? sizeof(Py_buffer) : 0) + (has_source ? sizeof(Sourced) : 0);
        Block* block = allocate_block(b.dl_.ndim, extra);
        if (ISTHMUS_UNLIKELY(block == nullptr)) return false;
        describe(block, b.dl_, b.flags_);
        if (ISTHMUS_UNLIKELY(b.flags_ & ordering_flags)) block->stream = b.stream_;
        block->owner = b.owner_;
        block->ops = ops;
        char* behind = reinterpret_cast<char*>(block->dims() + 2 * b.dl_.ndim);
        if (has_buffer) {
            auto* buffer = ::new (behind) Py_buffer;
            move_buffer(*buffer, b.buffer_);
            block->owner = buffer;
        }
        if (has_source) {
            Py_INCREF(source);
            block->owner = ::new (behind + (has_buffer ? sizeof(Py_buffer) : 0)) Sourced{block->owner, ops, source};
            block->ops = &python_owners->sourced;
        }
        b.ops_ = nullptr;
        out = announce(block);
        return true;
    }
};

}  // namespace detail

ISTHMUS_END
