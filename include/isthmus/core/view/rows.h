// The rows of a view as spans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/dims.h>

ISTHMUS_BEGIN

/// The rows of a view, in row-major order, as spans: what View::rows() gives. A view without dimensions is one row of one
/// element. Valid as long as the view's memory, and the view itself where its rank is dynamic.
template <class T, int N>
class Rows {
public:
    Rows(T* data, const detail::Layout<N>& layout) noexcept : data_(data), layout_(layout) {}

    struct sentinel {};
    class iterator {
    public:
        using value_type = std::span<T>;
        using difference_type = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;

        iterator() noexcept = default;
        std::span<T> operator*() const noexcept { return {row_, length_}; }
        iterator& operator++() noexcept {
            --left_;
            for (int d = outer_ - 1; d >= 0; --d) {
                const auto i = static_cast<std::size_t>(d);
                row_ += strides_[i];
                if (++index_[i] < extents_[i]) break;
                row_ -= strides_[i] * extents_[i];
                index_[i] = 0;
            }
            return *this;
        }
        void operator++(int) noexcept { ++*this; }
        bool operator==(sentinel) const noexcept { return left_ == 0; }

    private:
        friend class Rows;
        static constexpr std::size_t outer_most = N == -1 ? max_ndim : N > 1 ? N - 1 : 1;

        T* row_ = nullptr;
        std::size_t length_ = 0;
        std::int64_t left_ = 0;
        int outer_ = 0;
        const std::int64_t* extents_ = nullptr;
        const std::int64_t* strides_ = nullptr;
        std::array<std::int64_t, outer_most> index_{};
    };

    iterator begin() const noexcept {
        iterator it;
        const int ndim = layout_.ndim();
        it.row_ = data_;
        it.outer_ = ndim > 0 ? ndim - 1 : 0;
        it.length_ = ndim > 0 ? static_cast<std::size_t>(layout_.extent(ndim - 1)) : 1;
        it.extents_ = layout_.shape().data();
        it.strides_ = layout_.strides().data();
        it.left_ = 1;
        for (int d = 0; d < it.outer_; ++d) it.left_ *= layout_.extent(d);
        return it;
    }
    sentinel end() const noexcept { return {}; }

private:
    T* data_;
    detail::Layout<N> layout_;
};

ISTHMUS_END
