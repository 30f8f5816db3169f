// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/dlpack.h>
#include <isthmus/core/view/view.h>
#include <isthmus/python/runtime/gil.h>

ISTHMUS_BEGIN

namespace detail {

inline void drop_owned_block(void* block) { drop(static_cast<Block*>(block)); }

/// What a protocol gave, and the Python object it came from: the memory needs only the first, the way back wants the second.
struct Sourced {
    void* owner;
    void (*release)(void*);
    PyObject* source;

    static void end(void* self) {
        auto* s = static_cast<Sourced*>(self);
        if (s->release != nullptr) s->release(s->owner);
        drop_object(s->source);
    }
};

/// The Python object that keeps the memory of this block, borrowed; NULL when none does, or libtorch holds it.
inline PyObject* source_of(const Block* block) noexcept {
    switch (block->origin) {
        case Origin::python_object:
        case Origin::python_owner:
            return static_cast<PyObject*>(block->owner);
        case Origin::buffer:
            return static_cast<Py_buffer*>(block->owner)->obj;
        case Origin::sourced:
            return static_cast<Sourced*>(block->owner)->source;
        default:
            return nullptr;
    }
}

}  // namespace detail

/// A tensor borrowed from a Python object for the length of a call, with Tensor's accessors and without any allocation.
/// It must not outlive the call: the caller's reference to the object is what keeps the memory. What the protocol itself had to
/// hold (a buffer, a handle, a managed tensor) is released by the destructor, which needs the GIL.
class Borrowed : public detail::Accessors<Borrowed> {
public:
    Borrowed() noexcept {}
    Borrowed(Borrowed&& other) noexcept { take(other); }
    Borrowed& operator=(Borrowed&& other) noexcept {
        if (this != &other) {
            reset();
            take(other);
        }
        return *this;
    }
    ~Borrowed() { reset(); }

    /// As Tensor::view; valid as long as this object.
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const& {
        return detail::make_view<View<T, N, C...>>(dl_, flags_);
    }
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const&& = delete;  // the view would outlive what was borrowed
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const& {
        return detail::make_view<V>(dl_, flags_);
    }
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const&& = delete;

    const DLTensor& descriptor() const noexcept { return dl_; }
    Flags flags() const noexcept { return flags_; }

private:
    friend struct detail_import;

    void reset() noexcept {
        if (release_ != nullptr) detail::run_release(std::exchange(release_, nullptr), owner_ == nullptr ? &buffer_ : owner_);
    }
    void take(Borrowed& other) noexcept {
        dl_ = other.dl_;
        flags_ = other.flags_;
        origin_ = other.origin_;
        owner_ = other.owner_;
        release_ = std::exchange(other.release_, nullptr);
        if (release_ != nullptr && owner_ == nullptr) buffer_ = other.buffer_;
        const auto move_dims = [&](std::int64_t*& dims, const std::int64_t* theirs, std::int64_t* ours) {
            if (dims != theirs) return;
            for (int i = 0; i < dl_.ndim; ++i) ours[i] = theirs[i];
            dims = ours;
        };
        move_dims(dl_.shape, other.shape_, shape_);
        move_dims(dl_.strides, other.strides_, strides_);
    }

    DLTensor dl_;
    Flags flags_ = 0;
    /// NULL when there is nothing to release. Gets `owner_`, or the buffer when the owner is NULL.
    void (*release_)(void*) = nullptr;
    void* owner_ = nullptr;
    detail::Origin origin_ = detail::Origin::none;
    // Left uninitialised: the protocols that need them write them, the others pay nothing.
    Py_buffer buffer_;
    std::int64_t shape_[max_ndim];
    std::int64_t strides_[max_ndim];
};

/// The one door through which the protocols fill a Borrowed, and through which it becomes a Tensor.
struct detail_import {
    Borrowed& b;

    DLTensor& dl() const noexcept { return b.dl_; }
    Flags& flags() const noexcept { return b.flags_; }
    Py_buffer& buffer() const noexcept { return b.buffer_; }
    std::int64_t* shape() const noexcept { return b.shape_; }
    std::int64_t* strides() const noexcept { return b.strides_; }

    void hold(void* owner, void (*release)(void*), detail::Origin origin = detail::Origin::none) const noexcept {
        b.owner_ = owner;
        b.release_ = release;
        b.origin_ = origin;
    }
    void hold_buffer() const noexcept {
        hold(
            nullptr,
            [](void* view) {
                if (detail::GilForDrop gil; gil) PyBuffer_Release(static_cast<Py_buffer*>(view));
            },
            detail::Origin::buffer);
    }
    /// Keeps the Python object itself: what an owning import of an object without a protocol of release needs.
    void hold_object(PyObject* object) const noexcept {
        Py_INCREF(object);
        hold(object, [](void* o) { detail::drop_object(static_cast<PyObject*>(o)); }, detail::Origin::python_object);
    }
    void reset() const noexcept { b.reset(); }

    /// Moves what is held into a block, together with a reference to the object it came from where the protocol holds another
    /// thing. False (and nothing moved) when memory is out.
    ISTHMUS_ALWAYS_INLINE bool into_block(detail::Block*& out, PyObject* source) const noexcept {
        if (b.release_ == detail::drop_owned_block) {  // a block already: one of our own, or a copy made for this import
            out = static_cast<detail::Block*>(b.owner_);
            b.release_ = nullptr;
            return true;
        }
        const bool has_buffer = b.origin_ == detail::Origin::buffer;
        // A buffer may be another object's than the one asked (TensorFlow's is its ndarray's): the way back wants the one
        // asked.
        const bool has_source =
            source != nullptr && (b.origin_ == detail::Origin::none || (has_buffer && b.buffer_.obj != source));
        const std::size_t extra = (has_buffer ? sizeof(Py_buffer) : 0) + (has_source ? sizeof(detail::Sourced) : 0);
        detail::Block* block = detail::allocate_block(b.dl_.ndim, extra);
        if (ISTHMUS_UNLIKELY(block == nullptr)) return false;
        detail::describe(block, b.dl_, b.flags_);
        block->origin = b.origin_;
        block->owner = b.owner_;
        block->release = b.release_;
        char* behind = reinterpret_cast<char*>(block->dims() + 2 * b.dl_.ndim);
        if (has_buffer) block->owner = std::memcpy(behind, &b.buffer_, sizeof(Py_buffer));
        if (has_source) {
            Py_INCREF(source);
            block->owner =
                ::new (behind + (has_buffer ? sizeof(Py_buffer) : 0)) detail::Sourced{block->owner, b.release_, source};
            block->release = detail::Sourced::end;
            block->origin = detail::Origin::sourced;
        }
        b.release_ = nullptr;
        out = detail::announce(block);
        return true;
    }
};

ISTHMUS_END
