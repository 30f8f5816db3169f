// Isthmus: Eigen::Tensor over the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/isthmus.h>

#include <unsupported/Eigen/CXX11/Tensor>

ISTHMUS_BEGIN

namespace detail {

template <class T, int N, int options>
TensorSpec describe_eigen_tensor(T* data, const std::array<std::int64_t, static_cast<std::size_t>(N)>& sizes) {
    TensorSpec spec(data, dtype_of<std::remove_const_t<T>>(), sizes);
    if constexpr ((options & Eigen::RowMajor) == 0) {
        std::array<std::int64_t, static_cast<std::size_t>(N)> steps;
        std::int64_t step = 1;
        for (std::size_t d = 0; d < steps.size(); ++d) {
            steps[d] = step;
            step *= sizes[d] > 0 ? sizes[d] : 1;
        }
        spec.set_strides(steps);
    }
    return spec;
}

}  // namespace detail

/// The tensor as an Eigen::TensorMap of N dimensions, in place; `options` is Eigen::RowMajor or Eigen::ColMajor.
/// Eigen's maps have no strides, so the elements must be contiguous in that order. The map is valid as long as the
/// tensor.
template <class T, int N, int options = Eigen::RowMajor, class Source>
auto to_eigen_tensor(const Source& source) {
    using Order = std::conditional_t<(options & Eigen::RowMajor) != 0, c_contiguous, f_contiguous>;
    using Plain = Eigen::Tensor<std::remove_const_t<T>, N, options>;
    using Map = Eigen::TensorMap<std::conditional_t<std::is_const_v<T>, const Plain, Plain>>;
    return source.template view<View<T, N, Order>>().transform([](const View<T, N, Order>& v) {
        Eigen::array<Eigen::Index, N> sizes;
        for (int d = 0; d < N; ++d) sizes[static_cast<std::size_t>(d)] = v.extent(d);
        return Map(v.data(), sizes);
    });
}
template <class T, int N, int options = Eigen::RowMajor, class Source>
    requires(!std::is_lvalue_reference_v<Source>)
auto to_eigen_tensor(Source&& source) = delete;  // the map would outlive it

/// Tensor::own(std::move(tensor)): the tensor of Eigen moves into ours.
template <class T, int N, int options, class Index>
struct tensor_traits<Eigen::Tensor<T, N, options, Index>> {
    static TensorSpec describe(Eigen::Tensor<T, N, options, Index>& x) {
        std::array<std::int64_t, static_cast<std::size_t>(N)> sizes;
        for (std::size_t d = 0; d < sizes.size(); ++d) sizes[d] = x.dimension(d);
        return detail::describe_eigen_tensor<T, N, options>(x.data(), sizes);
    }
};

ISTHMUS_END
