// Isthmus: xtensor's containers over the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <isthmus/isthmus.h>

#if __has_include(<xtensor/containers/xadapt.hpp>)  // 0.26 and newer
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/views/xstrided_view.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#endif

ISTHMUS_BEGIN

namespace detail {

template <class X>
TensorSpec describe_xtensor(X& x) {
    const std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
    const std::vector<std::int64_t> steps(x.strides().begin(), x.strides().end());
    return TensorSpec(x.data(), dtype_of<typename X::value_type>(), sizes).set_strides(steps);
}

}  // namespace detail

/// A view as an xtensor expression of N dimensions, in place, valid as long as the tensor. A view that is C-contiguous
/// by its type becomes an adaptor that xtensor knows to be, any other a strided view, whatever its strides.
template <class T, int N, class... C>
    requires(N >= 0)
auto to_xtensor(const View<T, N, C...>& v) {
    using Sizes = std::array<std::size_t, static_cast<std::size_t>(N)>;
    using Steps = std::array<std::ptrdiff_t, static_cast<std::size_t>(N)>;
    Sizes sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) sizes[d] = static_cast<std::size_t>(v.extent(static_cast<int>(d)));
    if constexpr (View<T, N, C...>::requirement.order == detail::Order::c) {
        return xt::adapt(v.data(), static_cast<std::size_t>(v.size()), xt::no_ownership(), sizes);
    } else {
        // An adaptor with strides is assigned to as if it had no gaps: only a strided view over all that lies between
        // the first and the last element is not.
        std::int64_t before = 0, behind = v.empty() ? -1 : 0;
        Steps steps;
        for (std::size_t d = 0; d < steps.size(); ++d) {
            const std::int64_t size = v.extent(static_cast<int>(d)), step = v.stride(static_cast<int>(d));
            steps[d] = size > 1 && !v.empty() ? step : 0;  // xtensor expects 0 if a size is 1
            (steps[d] < 0 ? before : behind) += steps[d] * (size - 1);
        }
        const std::array<std::size_t, 1> reach = {static_cast<std::size_t>(behind - before + 1)};
        auto all = xt::adapt(v.data() + before, reach[0], xt::no_ownership(), reach);
        return xt::strided_view(std::move(all), std::move(sizes), std::move(steps), static_cast<std::size_t>(-before),
                                xt::layout_type::dynamic);
    }
}

/// Tensor::own(std::move(array)): the container moves into the tensor.
template <class Storage, xt::layout_type layout, class Sizes, class Tag>
struct tensor_traits<xt::xarray_container<Storage, layout, Sizes, Tag>> {
    static TensorSpec describe(xt::xarray_container<Storage, layout, Sizes, Tag>& x) {
        return detail::describe_xtensor(x);
    }
};
template <class Storage, std::size_t N, xt::layout_type layout, class Tag>
struct tensor_traits<xt::xtensor_container<Storage, N, layout, Tag>> {
    static TensorSpec describe(xt::xtensor_container<Storage, N, layout, Tag>& x) {
        return detail::describe_xtensor(x);
    }
};

ISTHMUS_END
