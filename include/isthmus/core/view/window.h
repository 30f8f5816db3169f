// The base of every view: an address, sizes and strides, access to them; parts and other shapes of the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>

#include <isthmus/core/rearrange.h>
#include <isthmus/core/shape.h>
#include <isthmus/core/view/constraints.h>

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
    std::span<const std::int64_t> shape() const noexcept { return span_of(extents_.data(), extents_.size()); }
    /// Steps in elements, one per dimension; valid as long as this view.
    std::span<const std::int64_t> strides() const noexcept { return span_of(strides_.data(), strides_.size()); }

    /// For a layout that was found to have this order: the strides that nobody steps along, of sizes of 1, become those
    /// of the order too, since others (BLAS, TMA descriptors, reshaping code) read them all the same.
    template <Order order>
    constexpr void order_strides() noexcept {
        std::int64_t step = 1;
        if constexpr (order == Order::inner && N > 0) strides_[static_cast<std::size_t>(N - 1)] = 1;
        if constexpr (order == Order::c || order == Order::f) {
            for (int n = 0; n < N; ++n) {
                const auto d = static_cast<std::size_t>(order == Order::c ? N - 1 - n : n);
                strides_[d] = step;
                step *= extents_[d] > 0 ? extents_[d] : 1;
            }
        }
    }

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
    std::span<const std::int64_t> shape() const noexcept { return span_of(extents_, static_cast<std::size_t>(ndim_)); }
    std::span<const std::int64_t> strides() const noexcept {
        return span_of(strides_, static_cast<std::size_t>(ndim_));
    }
    Dims inner() const noexcept { return {ndim_ - 1, extents_ + 1, strides_ + 1}; }
    /// The strides lie in the tensor, and stay as they are.
    template <Order order>
    constexpr void order_strides() const noexcept {}

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
    ISTHMUS_OF_THIS_FILE void check_index([[maybe_unused]] int dimension,
                                          [[maybe_unused]] std::int64_t index) const noexcept {
#if ISTHMUS_CHECK_BOUNDS
        if (index < 0 || index >= extent(dimension)) out_of_bounds(dimension, index, extent(dimension));
#endif
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

template <class T, int N, class... C>
class View;

namespace detail {

/// A view in memory of the kind that a Requirement names; `C` is what is known of its layout.
template <class T, int N, int device_type, class... C>
struct Placed {
    using type = View<T, N, C..., on<device_type>>;
};
template <class T, int N, class... C>
struct Placed<T, N, host_memory, C...> {
    using type = View<T, N, C...>;
};

/// The device of a view. For host memory nothing is stored.
template <bool on_host>
class Where {
public:
    constexpr Where() noexcept = default;
    constexpr explicit Where(const DLTensor&) noexcept {}
    /// The CPU, also if a driver has pinned the memory.
    static constexpr Device device() noexcept { return Device::cpu(); }
};
template <>
class Where<false> {
public:
    constexpr Where() noexcept = default;
    constexpr explicit Where(const DLTensor& t) noexcept : device_(t.device), byte_offset_(t.byte_offset) {}
    constexpr Device device() const noexcept { return device_; }
    /// If data() is a driver's handle, the bytes from its beginning to the first element; 0 if it is an address.
    constexpr std::uint64_t byte_offset() const noexcept { return byte_offset_; }

private:
    Device device_;
    std::uint64_t byte_offset_ = 0;
};

/// is_host_type() as nvcc wants it in a base class: after a call there it initialises the bases in another order.
template <int device_type>
inline constexpr bool is_of_host = is_host_type(device_type);

/// Elements of type T with N sizes and strides. Parts of it, and other shapes, are views of the same memory: they are
/// valid as long as it is, and what their type says of the layout is what is known of it.
template <class T, int N, int device_type, Order order>
class Window : public Layout<N>, public Where<is_of_host<device_type>> {
    static constexpr bool has_addresses =
        device_type == host_memory || (device_type != any_memory && !Device(device_type, 0).is_opaque());
    using Place = Where<is_of_host<device_type>>;
    template <int M>
    using Sizes = std::array<std::int64_t, static_cast<std::size_t>(M)>;
    template <class U, int M, class... C>
    using Other = typename Placed<U, M, device_type, C...>::type;
    /// Rows of contiguous memory, and rows of rows, are known to be so by their type.
    template <int M>
    using Part =
        std::conditional_t<order == Order::c, Other<T, M, c_contiguous>,
                           std::conditional_t<order == Order::inner, Other<T, M, inner_contiguous>, Other<T, M>>>;

public:
    /// Row-major without gaps, by the type or as it is.
    bool is_contiguous() const noexcept {
        if constexpr (order == Order::c)
            return true;
        else
            return Layout<N>::is_contiguous();
    }
    /// Address of the first element; on OpenCL, Vulkan, Metal and WebGPU the driver's handle.
    T* data() const noexcept { return data_; }
    /// Bytes of one element.
    static constexpr std::int64_t itemsize() noexcept { return sizeof(T); }
    /// Bytes of all elements when compact.
    std::int64_t nbytes() const noexcept { return this->size() * itemsize(); }
    /// The type of one element.
    static constexpr DType dtype() noexcept { return dtype_of<T>(); }

    /// The view at index `i` of the first dimension, one dimension less. The index is checked in debug builds, as that
    /// of an element.
    ISTHMUS_OF_THIS_FILE auto select(std::int64_t i) const noexcept
        requires(has_addresses && N != 0)
    {
        constexpr int M = N == dynamic_rank ? dynamic_rank : N - 1;
        const Layout<M> inner(this->inner());
        return other<Part<M>>(step_to(0, i, inner), inner);
    }
    /// The same for any dimension; negative ones count from the end. Throws Error(bad_argument) for a dimension that is
    /// none. Not for views of dynamic_rank, which show sizes that lie elsewhere: ask the Tensor.
    ISTHMUS_OF_THIS_FILE auto select(int dimension, std::int64_t i) const
        requires(has_addresses && N > 0)
    {
        int from = dimension < 0 ? dimension + N : dimension;
        if (ISTHMUS_UNLIKELY(from < 0 || from >= N)) from = dimension_of("select", dimension, N);
        Sizes<N - 1> extents, strides;
        for (int to = 0; to < N - 1; ++to) {
            const auto d = static_cast<std::size_t>(to);
            extents[d] = this->extent(to < from ? to : to + 1);
            strides[d] = this->stride(to < from ? to : to + 1);
        }
        const Layout<N - 1> rest(extents, strides);
        return other<Other<T, N - 1>>(step_to(from, i, rest), rest);
    }

    /// The elements [start, stop) of one dimension, every `step`th. As in Python's slices negative numbers count from
    /// the end and what leaves the dimension is cut off. Throws Error(bad_argument) for a step below 1, and a dimension
    /// that is none.
    auto slice(int dimension, std::int64_t start, std::int64_t stop = INT64_MAX, std::int64_t step = 1) const
        requires(has_addresses && N > 0)
    {
        const auto d = static_cast<std::size_t>(dimension_of("slice", dimension, N));
        Sizes<N> extents = copied(this->shape()), strides = copied(this->strides());
        const Slice cut(extents[d], strides[d], start, stop, step);
        const std::int64_t offset = cut.size == 0 || this->empty() ? 0 : cut.offset * strides[d];
        extents[d] = cut.size;
        strides[d] = cut.stride;
        return other<Other<T, N>>(offset, Layout<N>(extents, strides));
    }

    /// The dimensions in the opposite order.
    auto transpose() const noexcept
        requires(has_addresses && N >= 0)
    {
        Sizes<N> extents, strides;
        for (std::size_t d = 0; d < static_cast<std::size_t>(N); ++d) {
            extents[d] = this->shape()[static_cast<std::size_t>(N) - 1 - d];
            strides[d] = this->strides()[static_cast<std::size_t>(N) - 1 - d];
        }
        using Turned =
            std::conditional_t<order == Order::c, Other<T, N, f_contiguous>,
                               std::conditional_t<order == Order::f, Other<T, N, c_contiguous>, Other<T, N>>>;
        return other<Turned>(0, Layout<N>(extents, strides));
    }
    /// The dimensions in another order: which of them comes first, second, and so on; negative ones count from the end.
    /// Throws Error(bad_argument) unless each is there once.
    auto transpose(const Shape& axes) const
        requires(has_addresses && N > 0)
    {
        int from[max_ndim];
        resolve_axes(span_of(axes.data(), axes.size()), N, from);
        Sizes<N> extents, strides;
        for (std::size_t d = 0; d < static_cast<std::size_t>(N); ++d) {
            extents[d] = this->shape()[static_cast<std::size_t>(from[d])];
            strides[d] = this->strides()[static_cast<std::size_t>(from[d])];
        }
        return other<Other<T, N>>(0, Layout<N>(extents, strides));
    }

    /// The elements in another shape, in row-major order; one size may be -1, which stands for what the others leave.
    /// Throws Error(bad_layout) for another number of elements, and if only a copy has that shape.
    template <std::size_t M>
        requires(has_addresses && N >= 0)
    auto reshape(const std::int64_t (&shape)[M]) const {
        constexpr int wanted = static_cast<int>(M);
        Sizes<wanted> extents, strides;
        resolve_shape(this->shape().data(), N, shape, wanted, extents.data());
        reshape_strides(this->shape().data(), this->strides().data(), N, extents.data(), wanted, strides.data());
        using Reshaped = std::conditional_t<order == Order::c, Other<T, wanted, c_contiguous>, Other<T, wanted>>;
        return other<Reshaped>(0, Layout<wanted>(extents, strides));
    }

    /// The elements repeated along dimensions of size 1 and new ones in front, as NumPy broadcasts; to be read, since
    /// one element stands in several places. Throws Error(bad_layout) if the sizes do not go together.
    template <std::size_t M>
        requires(has_addresses && N >= 0)
    auto broadcast_to(const std::int64_t (&shape)[M]) const {
        constexpr int wanted = static_cast<int>(M);
        Sizes<wanted> extents, strides;
        broadcast_strides(this->shape().data(), this->strides().data(), N, shape, wanted, strides.data());
        for (std::size_t d = 0; d < M; ++d) extents[d] = shape[d];
        using Repeated = Other<const T, wanted>;
        return Repeated(data_, Layout<wanted>(extents, strides), *this);
    }

    /// The same view with a type that says it is row-major without gaps. Throws Error(bad_layout) if it is not:
    /// copy_of() makes a tensor that is.
    auto contiguous() const
        requires has_addresses
    {
        if (!is_contiguous()) throw rearrange_error("contiguous", strides_text());
        Layout<N> layout(*this);
        layout.template order_strides<Order::c>();
        return other<Other<T, N, c_contiguous>>(0, layout);
    }

protected:
    constexpr Window() noexcept = default;
    Window(T* data, const Layout<N>& layout, const Place& place) noexcept
        : Layout<N>(layout), Place(place), data_(data) {}
    explicit Window(const DLTensor& t) noexcept : Layout<N>(t), Place(t), data_(static_cast<T*>(t.data)) {
        this->template order_strides<order>();
    }

    ISTHMUS_COLD std::string strides_text() const {
        return concat({"found strides ", layout::to_string(this->strides()), " for shape ",
                       layout::to_string(this->shape()), "; expected contiguous memory"});
    }

private:
    /// How many elements further a part begins. Where it has none, the strides may be anything, and the address NULL.
    template <int M>
    ISTHMUS_OF_THIS_FILE std::int64_t step_to(int dimension, std::int64_t i, const Layout<M>& part) const noexcept {
        this->check_index(dimension, i);
        for (std::int64_t e : part.shape())
            if (e == 0) return 0;
        return i * this->stride(dimension);
    }
    template <class V, class L>
    V other(std::int64_t offset, const L& layout) const noexcept {
        return V(data_ + offset, layout, *this);
    }
    static Sizes<N> copied(std::span<const std::int64_t> values) noexcept {
        Sizes<N> out;
        for (std::size_t d = 0; d < out.size(); ++d) out[d] = values[d];
        return out;
    }

    T* data_ = nullptr;
};

}  // namespace detail

ISTHMUS_END
