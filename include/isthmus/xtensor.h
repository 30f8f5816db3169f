// Isthmus: xtensor's containers over the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <isthmus/isthmus.h>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>

ISTHMUS_BEGIN

namespace detail {

template <class X>
TensorSpec describe_xtensor(X& x) {
    const std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
    const std::vector<std::int64_t> steps(x.strides().begin(), x.strides().end());
    return TensorSpec(x.data(), dtype_of<typename X::value_type>(), sizes).set_strides(steps);
}

}  // namespace detail

/// A view as an xtensor expression of N dimensions, in place, valid as long as the tensor. A view that is C-contiguous by its
/// type becomes one that xtensor knows to be. Throws Error(bad_layout) for negative strides, which xtensor has not.
template <class T, int N, class... C>
    requires(N >= 0)
auto to_xtensor(const View<T, N, C...>& v) {
    std::array<std::size_t, static_cast<std::size_t>(N)> sizes;
    for (int d = 0; d < N; ++d) sizes[static_cast<std::size_t>(d)] = static_cast<std::size_t>(v.extent(d));
    if constexpr (View<T, N, C...>::requirement.order == detail::Order::c) {
        return xt::adapt(v.data(), static_cast<std::size_t>(v.size()), xt::no_ownership(), sizes);
    } else {
        std::array<std::ptrdiff_t, static_cast<std::size_t>(N)> steps;
        for (int d = 0; d < N; ++d) {
            const auto i = static_cast<std::size_t>(d);
            // xtensor expects 0 where a size is 1.
            steps[i] = v.extent(d) == 1 ? 0 : v.stride(d);
            if (steps[i] < 0 && !v.empty())
                throw Error(ErrorCode::bad_layout, ErrorKind::value,
                            "to_xtensor(): found strides " + layout::to_string(v.strides()) + "; wanted none that is negative");
        }
        return xt::adapt(v.data(), static_cast<std::size_t>(v.size()), xt::no_ownership(), sizes, steps);
    }
}

/// Tensor::own(std::move(array)): the container moves into the tensor.
template <class Storage, xt::layout_type layout, class Sizes, class Tag>
struct tensor_traits<xt::xarray_container<Storage, layout, Sizes, Tag>> {
    static TensorSpec describe(xt::xarray_container<Storage, layout, Sizes, Tag>& x) { return detail::describe_xtensor(x); }
};
template <class Storage, std::size_t N, xt::layout_type layout, class Tag>
struct tensor_traits<xt::xtensor_container<Storage, N, layout, Tag>> {
    static TensorSpec describe(xt::xtensor_container<Storage, N, layout, Tag>& x) { return detail::describe_xtensor(x); }
};

ISTHMUS_END
