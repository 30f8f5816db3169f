// for_each: a function called with the elements of one or several views of the same sizes, of any strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

/// How to walk over several views of the same sizes at once: the dimensions in the order in which they are walked, the
/// last one innermost. Dimensions of size 1 are dropped, and those without a gap between them in every view are merged.
struct IterationPlan {
    static constexpr int max_views = 8;

    int ndim = 0;
    int views;
    std::int64_t sizes[max_ndim];
    std::int64_t strides[max_ndim][max_views];
    std::int64_t starts[max_views] = {};  ///< where the walk begins, in elements from the first one

    /// `strides` has a row for each view. No size is 0.
    IterationPlan(int ndim_given, const std::int64_t* shape, int views_given,
                  const std::int64_t* const* given) noexcept;

private:
    bool is_outside(const std::int64_t* a, const std::int64_t* b) const noexcept;
    void insert(int dimension, std::int64_t size, const std::int64_t* const* given) noexcept;
    void set_strides(int dimension, const std::int64_t* steps) noexcept;
    bool follow(int outer, int inner) const noexcept;
    void merge() noexcept;
};

/// Elements that are only read, for the inner loop, one after the other: in place, or gathered.
template <class T>
class BlockOf {
public:
    static constexpr std::int64_t most = 256;

    BlockOf() noexcept {}
    const T* gather(const T* first, std::int64_t step, std::int64_t count) noexcept {
        if (step == 1) return first;
        if (step == 0)
            for (std::int64_t i = 0; i < count; ++i) elements_[i] = *first;
        else
            for (std::int64_t i = 0; i < count; ++i) elements_[i] = first[i * step];
        return elements_;
    }

private:
    // In a union, so that constructing one writes nothing.
    union {
        alignas(64) std::remove_const_t<T> elements_[most];
    };
};
/// An element that is written is not gathered.
template <class T>
    requires(!std::is_const_v<T>)
class BlockOf<T> {};

/// One for each view, by its position. (std::tuple would cost every file that includes <isthmus/isthmus.h>.)
template <std::size_t place, class T>
struct BlockAt {
    BlockOf<T> block;
};
template <class Places, class... T>
struct Blocks;
template <std::size_t... v, class... T>
struct Blocks<std::index_sequence<v...>, T...> : BlockAt<v, T>... {};
template <std::size_t place, class T>
BlockOf<T>& block_at(BlockAt<place, T>& at) noexcept {
    return at.block;
}

/// The loop that the compiler vectorises.
template <class F, class... T>
void for_each_neighbour(F& f, std::int64_t count, T*... first) {
    for (std::int64_t i = 0; i < count; ++i) f(first[i]...);
}

/// `steps` has the step of each view.
template <class F, class... T, std::size_t... v>
void for_each_in_row(F& f, std::int64_t count, const std::int64_t* steps, std::index_sequence<v...>,
                     Blocks<std::index_sequence<v...>, T...>& blocks, T*... first) {
    if (((std::is_const_v<T> || steps[v] == 1) && ...)) {
        const auto neighbours = [&]<std::size_t i>(auto* at, std::integral_constant<std::size_t, i>) {
            if constexpr (std::is_const_v<std::remove_pointer_t<decltype(at)>>)
                return block_at<i>(blocks).gather(at, steps[i], count);
            else
                return at;
        };
        for_each_neighbour(f, count, neighbours(first, std::integral_constant<std::size_t, v>())...);
    } else {
        for (std::int64_t i = 0; i < count; ++i) f(first[i * steps[v]]...);
    }
}

template <class F, class... T, std::size_t... v>
void for_each_of(F& f, const IterationPlan& walk, std::index_sequence<v...> all, T*... first) {
    const int inner = walk.ndim - 1;
    const std::int64_t count = walk.ndim > 0 ? walk.sizes[inner] : 1;
    const std::int64_t rows = walk.ndim > 1 ? walk.sizes[inner - 1] : 1;
    const std::int64_t steps[] = {(walk.ndim > 0 ? walk.strides[inner][v] : 1)...};
    const std::int64_t row_steps[] = {(walk.ndim > 1 ? walk.strides[inner - 1][v] : 0)...};
    // Gathered rows are processed one block at a time: what is read for one row is still in the cache for the next.
    const std::int64_t most = ((steps[v] == 1) && ...) ? count : BlockOf<const char>::most;
    std::int64_t index[max_ndim] = {};
    std::int64_t at[] = {walk.starts[v]...};
    Blocks<std::index_sequence<v...>, T...> blocks;
    for (;;) {
        for (std::int64_t from = 0; from < count; from += most)
            for (std::int64_t row = 0; row < rows; ++row)
                for_each_in_row(f, most < count - from ? most : count - from, steps, all, blocks,
                                (first + (at[v] + row * row_steps[v] + from * steps[v]))...);
        int d = inner - 2;
        for (; d >= 0; --d) {
            ((at[v] += walk.strides[d][v]), ...);
            if (++index[d] < walk.sizes[d]) break;
            ((at[v] -= walk.strides[d][v] * walk.sizes[d]), ...);
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

/// Throws Error(bad_layout) unless all of these are the same.
void check_same_sizes(const std::span<const std::int64_t>* shapes, int count);

template <class T, int N, class... C>
    requires(View<T, N, C...>::on_host && !DTypeSet<std::remove_cv_t<T>>)
void as_host_view(const View<T, N, C...>&) noexcept {}

/// A view of memory of the host with elements of one type, or what is derived from one (Out and InOut of an operator).
template <class V>
concept HostView = requires(const V& view) { as_host_view(view); };

}  // namespace detail

/// Calls `f` with the elements of one or several views of the same sizes, those at the same index together: once for
/// each, in an order that suits the memory. for_each([](float& out, float a, float b) { out = a * b; }, out, a, b).
/// What the function writes it takes by reference, of a view that may write. Elements to be read that are not
/// neighbours are gathered in blocks (a reference to one is good for the call alone), so that the loop over `f` runs
/// over neighbours and can become vectors, wherever the views that are written have neighbours; name first the view
/// whose order is to be followed. A view that is written shares no elements with another, save with one that shows the
/// same at every index. Throws Error(bad_layout) if the sizes differ.
template <class F, class First, class... Rest>
    requires(detail::HostView<First> && ... && detail::HostView<Rest>)
void for_each(F&& f, const First& view, const Rest&... views) {
    static_assert(sizeof...(Rest) < detail::IterationPlan::max_views, "isthmus: for_each() takes up to 8 views");
    if constexpr (sizeof...(Rest) != 0) {
        const std::span<const std::int64_t> shapes[] = {view.shape(), views.shape()...};
        detail::check_same_sizes(shapes, 1 + static_cast<int>(sizeof...(Rest)));
    }
    // A plan takes longer than a few elements do.
    if (view.is_contiguous() && (views.is_contiguous() && ...))
        return detail::for_each_neighbour(f, view.size(), view.data(), views.data()...);
    if (view.empty()) return;
    const std::int64_t* const strides[] = {view.strides().data(), views.strides().data()...};
    const detail::IterationPlan walk(view.ndim(), view.shape().data(), 1 + static_cast<int>(sizeof...(Rest)), strides);
    detail::for_each_of(f, walk, std::make_index_sequence<1 + sizeof...(Rest)>(), view.data(), views.data()...);
}

ISTHMUS_END
