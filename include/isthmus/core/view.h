// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>

#include <isthmus/core/tensor.h>

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
    std::fprintf(stderr, "isthmus: index %lld is out of bounds for dimension %d of size %lld\n", static_cast<long long>(index), dimension,
                 static_cast<long long>(size));
    std::abort();
}
}  // namespace detail

/// A typed, borrowed window on host memory: N sizes and N strides (in elements) over elements of type T. Does not own: it is
/// valid as long as the Tensor or Borrowed it came from. `T const` promises not to write.
template <class T, int N>
class View {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr int rank = N;

    View(T* data, const std::array<std::int64_t, N>& extents, const std::array<std::int64_t, N>& strides) noexcept
        : data_(data), extents_(extents), strides_(strides) {}
    /// A view that may write serves where one that only reads is wanted.
    operator View<const T, N>() const noexcept
        requires(!std::is_const_v<T>)
    {
        return {data_, extents_, strides_};
    }

    T* data() const noexcept { return data_; }
    static constexpr int ndim() noexcept { return N; }
    std::int64_t extent(int dimension) const noexcept { return extents_[static_cast<std::size_t>(dimension)]; }
    /// Step in elements.
    std::int64_t stride(int dimension) const noexcept { return strides_[static_cast<std::size_t>(dimension)]; }
    std::span<const std::int64_t> shape() const noexcept { return extents_; }
    std::span<const std::int64_t> strides() const noexcept { return strides_; }
    /// Number of elements.
    std::int64_t size() const noexcept {
        std::int64_t n = 1;
        for (std::int64_t e : extents_) n *= e;
        return n;
    }
    bool empty() const noexcept { return size() == 0; }
    bool is_contiguous() const noexcept { return layout::is_contiguous(extents_.data(), strides_.data(), N); }

    template <class... I>
        requires(sizeof...(I) == N && (std::is_convertible_v<I, std::int64_t> && ...))
    T& operator()(I... index) const noexcept {
        std::int64_t offset = 0;
        int d = 0;
        ((offset += at(d++, static_cast<std::int64_t>(index))), ...);
        return data_[offset];
    }
    T& operator[](std::int64_t i) const noexcept
        requires(N == 1)
    {
        return data_[at(0, i)];
    }

    /// The elements in a row. Throws Error(bad_layout) when they are not contiguous.
    std::span<T> span() const {
        if (!is_contiguous())
            throw Error(ErrorCode::bad_layout, ErrorKind::value,
                        "span(): found strides " + layout::to_string(strides()) + " for shape " + layout::to_string(shape()) +
                            "; wanted contiguous memory");
        return {data_, static_cast<std::size_t>(size())};
    }

    /// The view at index `i` of the first dimension, one dimension less.
    View<T, N - 1> slice(std::int64_t i) const noexcept
        requires(N > 1)
    {
        std::array<std::int64_t, N - 1> extents, strides;
        for (int d = 1; d < N; ++d) {
            extents[static_cast<std::size_t>(d - 1)] = extent(d);
            strides[static_cast<std::size_t>(d - 1)] = stride(d);
        }
        return {data_ + at(0, i), extents, strides};
    }

private:
    std::int64_t at(int dimension, std::int64_t index) const noexcept {
#if ISTHMUS_CHECK_BOUNDS
        if (index < 0 || index >= extent(dimension)) detail::out_of_bounds(dimension, index, extent(dimension));
#endif
        return index * stride(dimension);
    }

    T* data_;
    std::array<std::int64_t, static_cast<std::size_t>(N)> extents_, strides_;
};

namespace detail {

/// "uint8[480, 640, 3] on cpu": a tensor in the words of an error.
ISTHMUS_API std::string describe_tensor(const DLTensor& t);
/// Why a tensor is no View of `dtype` and `ndim` dimensions.
ISTHMUS_API Error explain_mismatch(const DLTensor& t, Flags flags, DType dtype, int ndim, bool writable);

#if ISTHMUS_DEFINE
ISTHMUS_API std::string describe_tensor(const DLTensor& t) {
    std::string text = DType(t.dtype).name() + "[";
    for (int i = 0; i < t.ndim; ++i) text += (i != 0 ? ", " : "") + std::to_string(t.shape[i]);
    return text + "] on " + Device(t.device).name();
}

ISTHMUS_API Error explain_mismatch(const DLTensor& t, Flags flags, DType dtype, int ndim, bool writable) {
    std::string wanted = (writable ? "writable " : "") + dtype.name() + "[";
    for (int i = 0; i < ndim; ++i) wanted += i != 0 ? ", :" : ":";
    const bool read_only = (flags & flag::read_only) != 0;
    const std::string both = "expected " + wanted + "] on cpu, got " + (read_only ? "read-only " : "") + describe_tensor(t) + ": ";
    const auto error = [&](ErrorCode code, const char* what) { return Error(code, ErrorKind::value, both + what); };
    if (DType(t.dtype) != dtype) return error(ErrorCode::bad_dtype, "dtype differs");
    if (t.ndim != ndim) return error(ErrorCode::bad_layout, "number of dimensions differs");
    if (!Device(t.device).is_host()) return error(ErrorCode::bad_device, "the host must not touch this memory");
    if (writable && read_only) return error(ErrorCode::read_only, "the memory is read-only");
    if (dtype.is_subbyte() && !(flags & flag::padded)) return error(ErrorCode::bad_layout, "the elements are packed, several to a byte");
    return error(ErrorCode::bad_layout, "the data is not aligned for this type");
}
#endif

template <class T, int N>
Result<View<T, N>> make_view(const DLTensor& t, Flags flags) {
    static_assert(N >= 0 && N <= max_ndim);
    const bool aligned = reinterpret_cast<std::uintptr_t>(t.data) % alignof(std::remove_cv_t<T>) == 0;
    if (ISTHMUS_UNLIKELY(DType(t.dtype) != dtype_of<T>() || t.ndim != N || !Device(t.device).is_host() ||
                         (!std::is_const_v<T> && (flags & flag::read_only)) || !aligned ||
                         (dtype_of<T>().is_subbyte() && !(flags & flag::padded))))
        return explain_mismatch(t, flags, dtype_of<T>(), N, !std::is_const_v<T>);
    std::array<std::int64_t, static_cast<std::size_t>(N)> extents, strides;
    for (int i = 0; i < N; ++i) {
        extents[static_cast<std::size_t>(i)] = t.shape[i];
        strides[static_cast<std::size_t>(i)] = t.strides[i];
    }
    return View<T, N>(static_cast<T*>(t.data), extents, strides);
}

}  // namespace detail

template <class T, int N>
Result<View<T, N>> Tensor::view() const& {
    return detail::make_view<T, N>(block_->dl, block_->flags);
}

ISTHMUS_END
