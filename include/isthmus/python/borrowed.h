// Borrowed: a tensor lent by a Python object for the length of a call, without an allocation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/buffers.h>  // Python.h must come before any standard header

#include <isthmus/core/tensor.h>
#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

struct BorrowedBuilder;

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

    /// As Tensor::stream.
    std::int64_t stream() const noexcept { return (flags_ & detail::stream_flag) ? stream_.number : no_stream; }
    /// As Tensor::descriptor().
    const DLTensor& descriptor() const noexcept { return dl_; }
    /// As Tensor::flags().
    Flags flags() const noexcept { return flags_; }

private:
    friend struct detail::BorrowedBuilder;

    void reset() noexcept {
        if (ops_ != nullptr) end();
    }
    void end() noexcept;
    void take(Borrowed& other) noexcept {
        dl_ = other.dl_;
        flags_ = other.flags_;
        if (flags_ & detail::ordering_flags) stream_ = other.stream_;
        owner_ = other.owner_;
        ops_ = std::exchange(other.ops_, nullptr);
        if (ops_ != nullptr && owner_ == nullptr) detail::move_buffer(buffer_, other.buffer_);
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
    /// NULL when there is nothing to release. Its functions get `owner_`, or the buffer when the owner is NULL.
    const detail::OwnerOps* ops_ = nullptr;
    void* owner_ = nullptr;
    // Left uninitialised: the protocols that need them write them, the others pay nothing.
    detail::StreamSource stream_;  // as Block::stream
    Py_buffer buffer_;
    std::int64_t shape_[max_ndim];
    std::int64_t strides_[max_ndim];
};

namespace detail {
/// A tensor that is not empty, lent for as long as the Borrowed lives, which keeps it.
Borrowed lend(Tensor tensor) noexcept;
}  // namespace detail

ISTHMUS_END
