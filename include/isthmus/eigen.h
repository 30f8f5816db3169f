// Isthmus: Eigen's matrices, vectors and arrays over the same memory; eigen_tensor.h has Eigen::Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/isthmus.h>

#include <Eigen/Core>

ISTHMUS_BEGIN

/// A map with whatever strides the tensor has; `Plain` is an Eigen matrix, vector or array type, const when it is not
/// to write.
template <class Plain>
using EigenMap = Eigen::Map<Plain, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

namespace detail {

template <class X>
concept EigenPlain = std::is_base_of_v<Eigen::PlainObjectBase<std::remove_const_t<X>>, std::remove_const_t<X>>;
/// Memory that Eigen can name: a matrix, a Map, a Ref, a Block, or what is derived from one, as a VectorBlock is.
template <class X>
concept EigenDirect = requires(X& x) {
    x.data();
    x.outerStride();
    []<class Dense>(const Eigen::DenseBase<Dense>&) {}(x);
};

template <class Plain>
inline constexpr bool is_eigen_vector = bool(std::remove_const_t<Plain>::IsVectorAtCompileTime);

constexpr std::int64_t eigen_size(int size) { return size == Eigen::Dynamic ? dyn : size; }
/// The sizes that the type fixes, as a view's constraint asks for them.
template <class Plain>
using EigenExtents = extents<eigen_size(Plain::RowsAtCompileTime), eigen_size(Plain::ColsAtCompileTime)>;
template <class Plain>
using EigenLength = extents<eigen_size(Plain::SizeAtCompileTime)>;

template <class Plain>
struct EigenViewOf {
    using Scalar = std::conditional_t<std::is_const_v<Plain>, const typename Plain::Scalar, typename Plain::Scalar>;
    using type = View<Scalar, 2, EigenExtents<Plain>>;
};
template <class Plain>
    requires is_eigen_vector<Plain>
struct EigenViewOf<Plain> {
    using Scalar = std::conditional_t<std::is_const_v<Plain>, const typename Plain::Scalar, typename Plain::Scalar>;
    using type = View<Scalar, 1, EigenLength<Plain>>;
};

template <class X>
TensorSpec describe_eigen(X& x) {
    using Scalar = typename std::remove_const_t<X>::Scalar;
    auto* data = x.data();
    if constexpr (is_eigen_vector<X>)
        return TensorSpec(data, dtype_of<Scalar>(), {x.size()}).set_strides({x.innerStride()});
    else
        return TensorSpec(data, dtype_of<Scalar>(), {x.rows(), x.cols()})
            .set_strides(std::remove_const_t<X>::IsRowMajor ? Shape{x.outerStride(), x.innerStride()}
                                                            : Shape{x.innerStride(), x.outerStride()});
}

}  // namespace detail

/// The tensor as a matrix (two dimensions) or a vector (one), in place: to_eigen<const Eigen::MatrixXf>(t), of a Tensor
/// or a Borrowed. Sizes that the type fixes are checked. The map is valid as long as the tensor.
template <class Plain, class Source>
    requires detail::EigenPlain<Plain>
Result<EigenMap<Plain>> to_eigen(const Source& source) {
    using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    using V = typename detail::EigenViewOf<Plain>::type;
    const auto map = [](const V& v) {
        if constexpr (detail::is_eigen_vector<Plain>)
            return EigenMap<Plain>(v.data(), v.extent(0), Stride(0, v.stride(0)));
        else if constexpr (Plain::IsRowMajor)
            return EigenMap<Plain>(v.data(), v.extent(0), v.extent(1), Stride(v.stride(0), v.stride(1)));
        else
            return EigenMap<Plain>(v.data(), v.extent(0), v.extent(1), Stride(v.stride(1), v.stride(0)));
    };
    return source.template view<V>().transform(map);
}
template <class Plain, class Source>
    requires(detail::EigenPlain<Plain> && !std::is_lvalue_reference_v<Source>)
Result<EigenMap<Plain>> to_eigen(Source&& source) = delete;  // the map would outlive it

/// A view as an Eigen map: row-major, or a column vector. Constraints on the layout become constants of the map's type.
template <class T, int N, class... C>
    requires(N == 1 || N == 2)
auto to_eigen(const View<T, N, C...>& v) {
    using Scalar = std::remove_const_t<T>;
    using Plain = std::conditional_t<N == 1, Eigen::Matrix<Scalar, Eigen::Dynamic, 1>,
                                     Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
    using Wanted = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
    if constexpr (View<T, N, C...>::requirement.order == detail::Order::c) {
        if constexpr (N == 1)
            return Eigen::Map<Wanted>(v.data(), v.extent(0));
        else
            return Eigen::Map<Wanted>(v.data(), v.extent(0), v.extent(1));
    } else {
        using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
        if constexpr (N == 1)
            return EigenMap<Wanted>(v.data(), v.extent(0), Stride(0, v.stride(0)));
        else
            return EigenMap<Wanted>(v.data(), v.extent(0), v.extent(1), Stride(v.stride(0), v.stride(1)));
    }
}

/// Tensor::own(std::move(matrix)): the matrix moves into the tensor.
template <class X>
    requires detail::EigenPlain<X>
struct tensor_traits<X> {
    static TensorSpec describe(X& x) { return detail::describe_eigen(x); }
};

/// The memory behind a Map, Ref, Block or matrix, which `owner` keeps (as for Tensor::wrap). A const one, and a map of
/// const, is read-only.
template <class X, class Owner>
    requires detail::EigenDirect<X>
Tensor from_eigen(X& x, Owner owner) {
    return Tensor::wrap_spec([&x] { return detail::describe_eigen(x); }, std::move(owner));
}
/// The same of a part that Eigen makes on the spot: from_eigen(x.head(n), owner), from_eigen(m.row(1), owner).
template <class X, class Owner>
    requires(detail::EigenDirect<X> && !std::is_lvalue_reference_v<X> && !detail::EigenPlain<X>)
Tensor from_eigen(X&& part, Owner owner) {
    return from_eigen(static_cast<X&>(part), std::move(owner));
}
template <class X, class Owner>
    requires(detail::EigenPlain<X> && !std::is_lvalue_reference_v<X>)
Tensor from_eigen(X&& matrix, Owner owner) = delete;  // its memory ends with it: Tensor::own(std::move(matrix))

ISTHMUS_END
