// The rows of a view, and the elements of a row that are apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>  // also declares the iterator tags; <iterator> would bring the streams into every file
#include <compare>
#include <type_traits>

#include <isthmus/core/view/window.h>

ISTHMUS_BEGIN

namespace detail {

/// The result of a view's deleted begin() if it has more than one dimension: compilers print it in their error.
struct use_for_each_or_rows {};

/// Elements that are a fixed number of elements apart.
template <class T>
class StridedIterator {
public:
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using reference = T&;
    using pointer = T*;
    using iterator_category = std::random_access_iterator_tag;

    StridedIterator() noexcept = default;
    StridedIterator(T* first, std::int64_t stride, std::int64_t index) noexcept
        : first_(first), stride_(stride), index_(index) {}

    T& operator*() const noexcept { return first_[index_ * stride_]; }
    T* operator->() const noexcept { return &**this; }
    T& operator[](difference_type n) const noexcept { return first_[(index_ + n) * stride_]; }
    StridedIterator& operator++() noexcept { return *this += 1; }
    StridedIterator& operator--() noexcept { return *this += -1; }
    StridedIterator operator++(int) noexcept { return {first_, stride_, index_++}; }
    StridedIterator operator--(int) noexcept { return {first_, stride_, index_--}; }
    StridedIterator& operator+=(difference_type n) noexcept {
        index_ += n;
        return *this;
    }
    StridedIterator& operator-=(difference_type n) noexcept { return *this += -n; }
    friend StridedIterator operator+(StridedIterator it, difference_type n) noexcept { return it += n; }
    friend StridedIterator operator+(difference_type n, StridedIterator it) noexcept { return it += n; }
    friend StridedIterator operator-(StridedIterator it, difference_type n) noexcept { return it -= n; }
    friend difference_type operator-(const StridedIterator& a, const StridedIterator& b) noexcept {
        return a.index_ - b.index_;
    }
    friend bool operator==(const StridedIterator& a, const StridedIterator& b) noexcept { return a.index_ == b.index_; }
    friend auto operator<=>(const StridedIterator& a, const StridedIterator& b) noexcept {
        return a.index_ <=> b.index_;
    }

private:
    T* first_ = nullptr;
    std::int64_t stride_ = 0;
    std::int64_t index_ = 0;  // an index, since an address past the last element could lie far outside the memory
};

}  // namespace detail

/// The rows of a view, in row-major order: what View::rows() gives. `Row` is a span, or a view of one dimension. A view
/// without dimensions is one row of one element. Valid as long as the view's memory, and the view itself if its rank is
/// dynamic.
template <class T, int N, class Row>
class Rows {
public:
    Rows(T* data, const detail::Layout<N>& layout) noexcept : data_(data), layout_(layout) {}

    /// The end of the range: the standard's kind of iterator and sentinel for an input range.
    struct sentinel {};
    /// As sentinel: one pass, one row a step.
    class iterator {
    public:
        /// As the standard's iterators have them.
        using value_type = Row;
        using difference_type = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;

        iterator() noexcept = default;
        /// The row.
        Row operator*() const noexcept {
            if constexpr (std::is_same_v<Row, std::span<T>>)
                return {row_, static_cast<std::size_t>(length_)};
            else
                return Row(row_, {length_}, {stride_});
        }
        /// The next row.
        iterator& operator++() noexcept {
            --left_;
            for (int d = outer_ - 1; d >= 0; --d) {
                const auto i = static_cast<std::size_t>(d);
                if (++index_[i] < extents_[i]) {
                    row_ += strides_[i];
                    break;
                }
                row_ -= strides_[i] * (extents_[i] - 1);  // never past the memory, not even for a moment
                index_[i] = 0;
            }
            return *this;
        }
        void operator++(int) noexcept { ++*this; }  ///< the next row
        /// Whether all rows were seen.
        bool operator==(sentinel) const noexcept { return left_ == 0; }

    private:
        friend class Rows;
        static constexpr std::size_t outer_most = N == -1 ? max_ndim : N > 1 ? N - 1 : 1;

        T* row_ = nullptr;
        std::int64_t length_ = 0;
        std::int64_t stride_ = 1;
        std::int64_t left_ = 0;
        int outer_ = 0;
        const std::int64_t* extents_ = nullptr;
        const std::int64_t* strides_ = nullptr;
        std::array<std::int64_t, outer_most> index_{};
    };

    /// The first row.
    iterator begin() const noexcept {
        iterator it;
        const int ndim = layout_.ndim();
        it.row_ = data_;
        it.outer_ = ndim > 0 ? ndim - 1 : 0;
        it.length_ = ndim > 0 ? layout_.extent(ndim - 1) : 1;
        if (ndim > 0) it.stride_ = layout_.stride(ndim - 1);
        it.extents_ = layout_.shape().data();
        it.strides_ = data_ != nullptr ? layout_.strides().data() : no_strides;
        it.left_ = 1;
        for (int d = 0; d < it.outer_; ++d) it.left_ *= layout_.extent(d);
        return it;
    }
    /// Behind the last one.
    sentinel end() const noexcept { return {}; }

private:
    static constexpr std::int64_t no_strides[max_ndim]{};  // rows of no elements may have no address to step from

    T* data_;
    detail::Layout<N> layout_;
};

ISTHMUS_END
