// Isthmus: mdspan over the same memory: the standard's if it exists, else Kokkos' reference implementation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/isthmus.h>

// Another implementation of the standard's interface: include it first, and define ISTHMUS_MDSPAN_NAMESPACE as its
// namespace (and ISTHMUS_MDSPAN_ARRAY as its array, if that is not std::array).
#if !defined(ISTHMUS_MDSPAN_NAMESPACE)
#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#define ISTHMUS_MDSPAN_NAMESPACE ::std
#elif __has_include(<mdspan/mdspan.hpp>)
#include <mdspan/mdspan.hpp>
#elif __has_include(<experimental/mdspan>)
#include <experimental/mdspan>
#else
#include "Isthmus: mdspan.h needs std::mdspan (C++23), or Kokkos' mdspan on the include path"
#endif
#if !defined(ISTHMUS_MDSPAN_NAMESPACE)
#if defined(MDSPAN_IMPL_STANDARD_NAMESPACE)
#define ISTHMUS_MDSPAN_NAMESPACE ::MDSPAN_IMPL_STANDARD_NAMESPACE
#else
#define ISTHMUS_MDSPAN_NAMESPACE ::std::experimental
#endif
#endif
#endif
#if !defined(ISTHMUS_MDSPAN_ARRAY)
#define ISTHMUS_MDSPAN_ARRAY ::std::array
#endif

ISTHMUS_BEGIN

namespace md = ISTHMUS_MDSPAN_NAMESPACE;

namespace detail {

template <class V, class Ranks>
struct MdExtents;
template <class V, std::size_t... i>
struct MdExtents<V, std::index_sequence<i...>> {
    static constexpr std::size_t size(std::size_t d) {
        const SizeSpec* sizes = V::requirement.sizes;
        return V::requirement.size_count < 0 || sizes[d].size == dyn ? static_cast<std::size_t>(-1)
                                                                     : static_cast<std::size_t>(sizes[d].size);
    }
    using type = md::extents<std::int64_t, size(i)...>;
};

}  // namespace detail

/// The mdspan of view.mdspan(): sizes that the view's type fixes are static extents; the mapping is layout_right or
/// layout_left if the type says C or F, else layout_stride. Throws Error(bad_layout) for strides below 1, which no
/// layout_stride may have ([mdspan.layout.stride.cons]).
template <class T, int N, class... C>
    requires(N >= 0)
struct mdspan_of<View<T, N, C...>> {
    using V = View<T, N, C...>;
    using Extents = typename detail::MdExtents<V, std::make_index_sequence<static_cast<std::size_t>(N)>>::type;
    using Layout = std::conditional_t<
        V::requirement.order == detail::Order::c, md::layout_right,
        std::conditional_t<V::requirement.order == detail::Order::f, md::layout_left, md::layout_stride>>;
    using type = md::mdspan<T, Extents, Layout>;

    static type make(const V& v) {
        ISTHMUS_MDSPAN_ARRAY<std::int64_t, static_cast<std::size_t>(N)> sizes{}, steps{};
        for (int d = 0; d < N; ++d) {
            const auto i = static_cast<std::size_t>(d);
            sizes[i] = v.extent(d);
            steps[i] = v.extent(d) <= 1 && v.stride(d) < 1 ? 1 : v.stride(d);  // a step that is never taken
            if (std::is_same_v<Layout, md::layout_stride> && steps[i] < 1 && !v.empty())
                throw Error(
                    ErrorCode::bad_layout, ErrorKind::value,
                    "mdspan(): found strides " + layout::to_string(v.strides()) + "; expected strides of 1 or more");
            if (steps[i] < 1) steps[i] = 1;
        }
        const Extents extents(sizes);
        if constexpr (std::is_same_v<Layout, md::layout_stride>)
            return type(v.data(), typename Layout::template mapping<Extents>(extents, steps));
        else
            return type(v.data(), typename Layout::template mapping<Extents>(extents));
    }
};

/// The memory that an mdspan shows, which `owner` keeps (as for Tensor::wrap): an mdspan owns nothing. Of a const
/// element type it is read-only.
template <class T, class Extents, class Layout, class Access, class Owner>
Tensor from_mdspan(const md::mdspan<T, Extents, Layout, Access>& m, Owner owner) {
    static_assert(std::is_same_v<typename Access::data_handle_type, T*>, "isthmus: the elements must be plain memory");
    return Tensor::wrap_spec(
        [&m]() -> TensorSpec {
            constexpr std::size_t n = Extents::rank();
            std::array<std::int64_t, n> sizes{}, steps{};
            for (std::size_t d = 0; d < n; ++d) {
                sizes[d] = static_cast<std::int64_t>(m.extent(d));
                steps[d] = static_cast<std::int64_t>(m.stride(d));
            }
            return TensorSpec(m.data_handle(), dtype_of<std::remove_const_t<T>>(), sizes).set_strides(steps);
        },
        std::move(owner));
}

ISTHMUS_END
