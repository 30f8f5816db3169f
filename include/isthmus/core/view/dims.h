// The sizes and strides of a view, and access to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>

#include <isthmus/core/layout.h>

// Bounds are checked in debug builds; define ISTHMUS_CHECK_BOUNDS to 0 or 1 to say otherwise.
#if !defined(ISTHMUS_CHECK_BOUNDS)
#if defined(NDEBUG)
#define ISTHMUS_CHECK_BOUNDS 0
#else
#define ISTHMUS_CHECK_BOUNDS 1
#endif
#endif

ISTHMUS_BEGIN

namespace detail {

[[noreturn]] ISTHMUS_COLD inline void out_of_bounds(int dimension, std::int64_t index, std::int64_t size) noexcept {
    std::fprintf(stderr, "isthmus: index %lld is out of bounds for dimension %d of size %lld\n",
                 static_cast<long long>(index), dimension, static_cast<long long>(size));
    std::abort();
}
[[noreturn]] ISTHMUS_COLD inline void no_such_dimension(int dimension, int ndim) noexcept {
    std::fprintf(stderr, "isthmus: dimension %d of a view of %d dimensions\n", dimension, ndim);
    std::abort();
}
[[noreturn]] ISTHMUS_COLD inline void wrong_index_count(int given, int wanted) noexcept {
    std::fprintf(stderr, "isthmus: %d indices for a view of %d dimensions\n", given, wanted);
    std::abort();
}

/// The sizes and strides of a view of N dimensions: its own copies, so that it depends on nothing but the memory.
template <int N>
class Dims {
public:
    /// The N of the type.
    static constexpr int rank = N;

    /// Of nothing: no elements.
    constexpr Dims() noexcept : extents_{}, strides_{} {}
    constexpr Dims(const std::array<std::int64_t, static_cast<std::size_t>(N)>& extents,
                   const std::array<std::int64_t, static_cast<std::size_t>(N)>& strides) noexcept
        : extents_(extents), strides_(strides) {}
    explicit Dims(const DLTensor& t) noexcept {
        for (int i = 0; i < N; ++i) {
            extents_[static_cast<std::size_t>(i)] = t.shape[i];
            strides_[static_cast<std::size_t>(i)] = t.strides[i];
        }
    }
    /// Number of dimensions.
    static constexpr int ndim() noexcept { return N; }
    /// Sizes, one per dimension; valid as long as this view.
    std::span<const std::int64_t> shape() const noexcept { return extents_; }
    /// Steps in elements, one per dimension; valid as long as this view.
    std::span<const std::int64_t> strides() const noexcept { return strides_; }

    /// Without the first dimension.
    Dims<N - 1> inner() const noexcept
        requires(N > 0)
    {
        std::array<std::int64_t, static_cast<std::size_t>(N - 1)> extents, strides;
        for (std::size_t d = 1; d < static_cast<std::size_t>(N); ++d) {
            extents[d - 1] = extents_[d];
            strides[d - 1] = strides_[d];
        }
        return {extents, strides};
    }

private:
    std::array<std::int64_t, static_cast<std::size_t>(N)> extents_, strides_;
};

/// Those of a view of any number of dimensions: the tensor's own, which must stay where they are.
template <>
class Dims<-1> {
public:
    static constexpr int rank = -1;

    constexpr Dims() noexcept = default;
    constexpr Dims(int ndim, const std::int64_t* extents, const std::int64_t* strides) noexcept
        : extents_(extents), strides_(strides), ndim_(ndim) {}
    explicit Dims(const DLTensor& t) noexcept : Dims(t.ndim, t.shape, t.strides) {}
    int ndim() const noexcept { return ndim_; }
    std::span<const std::int64_t> shape() const noexcept { return {extents_, static_cast<std::size_t>(ndim_)}; }
    std::span<const std::int64_t> strides() const noexcept { return {strides_, static_cast<std::size_t>(ndim_)}; }
    Dims inner() const noexcept { return {ndim_ - 1, extents_ + 1, strides_ + 1}; }

private:
    static constexpr std::int64_t none = 0;
    const std::int64_t* extents_ = &none;
    const std::int64_t* strides_ = &none;
    int ndim_ = 1;
};

/// The common interface to sizes and strides, for every kind of view.
template <int N>
class Layout : public Dims<N> {
public:
    using Dims<N>::Dims;
    explicit Layout(const Dims<N>& dims) noexcept : Dims<N>(dims) {}

    /// The size of one dimension.
    ISTHMUS_OF_THIS_FILE std::int64_t extent(int dimension) const noexcept { return this->shape()[place(dimension)]; }
    /// Step in elements.
    ISTHMUS_OF_THIS_FILE std::int64_t stride(int dimension) const noexcept { return this->strides()[place(dimension)]; }
    /// Number of elements.
    std::int64_t size() const noexcept {
        std::int64_t n = 1;
        for (std::int64_t e : this->shape()) n *= e;
        return n;
    }
    /// Whether there are no elements.
    bool empty() const noexcept { return size() == 0; }
    /// Row-major without gaps.
    bool is_contiguous() const noexcept {
        return layout::is_contiguous(this->shape().data(), this->strides().data(), this->ndim());
    }
    /// Column-major and compact.
    bool is_f_contiguous() const noexcept {
        return layout::is_f_contiguous(this->shape().data(), this->strides().data(), this->ndim());
    }

protected:
    ISTHMUS_OF_THIS_FILE std::int64_t at(int dimension, std::int64_t index) const noexcept {
#if ISTHMUS_CHECK_BOUNDS
        if (index < 0 || index >= extent(dimension)) out_of_bounds(dimension, index, extent(dimension));
#endif
        return index * stride(dimension);
    }

private:
    ISTHMUS_OF_THIS_FILE std::size_t place(int dimension) const noexcept {
#if ISTHMUS_CHECK_BOUNDS
        if (dimension < 0 || dimension >= this->ndim()) no_such_dimension(dimension, this->ndim());
#endif
        return static_cast<std::size_t>(dimension);
    }
};

}  // namespace detail

ISTHMUS_END
