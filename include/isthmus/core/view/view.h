// View: a typed, borrowed window on a tensor's elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>
#include <isthmus/core/view/rows.h>
#include <isthmus/core/view/window.h>

ISTHMUS_BEGIN

/// Defined by <isthmus/mdspan.h> for every view that an mdspan can show.
template <class V>
struct mdspan_of;

namespace detail {

/// The Requirement of View<T, N, C…>, and the same in words.
template <class T, int N, class... C>
struct Wanted {
    static_assert(N >= dynamic_rank && N <= max_ndim, "isthmus: a view has 0 to max_ndim dimensions, or dynamic_rank");
    static_assert((Constraint<C> && ...),
                  "isthmus: what follows the rank must be constraints (isthmus/core/view/constraints.h)");
    using Element = std::remove_cv_t<T>;

    static constexpr Requirement make() {
        Requirement r;
        r.writable = !std::is_const_v<T>;
        if constexpr (DTypeSet<Element>) {
            r.accepts = Element::accepts;
        } else {
            r.dtype = dtype_of<Element>();
            r.alignment = alignof(Element);
        }
        if constexpr (N != dynamic_rank) r.min_rank = r.max_rank = N;
        (C::apply(r), ...);
        return r;
    }
    static constexpr Requirement bare = make();
    static_assert(!bare.orders_clash, "isthmus: c_contiguous, f_contiguous and inner_contiguous contradict each other");
    static_assert(!bare.sizes_clash, "isthmus: sizes are asked for once; sizes<\"h w 3\"> says names and numbers");
    static_assert(!bare.ranks_clash, "isthmus: no rank is within all the bounds that are asked for");
    static_assert(!bare.devices_clash, "isthmus: memory is on one device, and constraints ask for two");
    static_assert(!bare.grads_clash, "isthmus: allow_grad and no_grad contradict each other");
    static_assert(bare.converts == Converts::nothing || !bare.writable,
                  "isthmus: what is written to a converted copy is lost; the elements of a converted view are const");
    static_assert(N == dynamic_rank || (bare.min_rank == N && bare.max_rank == N),
                  "isthmus: rank_between is for views of dynamic_rank");
    static_assert(bare.size_count == -1 || bare.size_count == N || (N == dynamic_rank && has_runs(bare)),
                  "isthmus: as many sizes as dimensions are expected; a run (\"b...\") is of a view of dynamic_rank");

    static constexpr void spell(Words& out) {
        if constexpr (DTypeSet<Element>)
            Element::describe(out);
        else if constexpr (NumpyElement<Element>)
            spell_numpy(out, dtype_traits<Element>::numpy);
        else
            out.add(dtype_of<Element>());
        add_shape_words(out, bare);
    }
    static constexpr ConstexprString<spell> words{};
    static constexpr Requirement finish() {
        Requirement r = make();
        r.words = TextRef(words.view());
        return r;
    }
    static constexpr Requirement requirement = finish();
};

template <class T, int N, class... C>
using WindowOf = Window<T, N, Wanted<T, N, C...>::requirement.device_type, Wanted<T, N, C...>::requirement.order>;

/// A view with these constraints also satisfies `D`: each of them is among its own, or requires nothing of the memory.
template <class D, class... C>
inline constexpr bool is_one_of =
    std::is_same_v<D, allow_grad> || std::is_same_v<D, converted> || std::is_same_v<D, array_like> ||
    ((std::is_same_v<D, packed> || std::is_same_v<D, c_contiguous>) &&
     ((std::is_same_v<C, packed> || std::is_same_v<C, c_contiguous>) || ...)) ||
    (std::is_same_v<D, C> || ...) || (std::is_same_v<D, no_grad> && !(std::is_same_v<C, allow_grad> || ...));

/// The view of a tensor that was found to be what `V` wants.
template <class V>
V view_of(const DLTensor& t) noexcept {
    return V(t);
}

/// The view of a tensor that fits `V`. `names` are those of the call, if it has several arguments.
template <class V>
Result<V> make_view(const DLTensor& t, Flags flags, SizeNames* names = nullptr, const char* argument = nullptr) {
    constexpr const Requirement& r = V::requirement;
    static_assert(
        !is_for_operators(r),
        "isthmus: a formula (\"c/(h*w)\") or a run (\"b...\") in sizes<> is for the parameters of an operator");
    if constexpr (r.size_count < 0) {
        if (ISTHMUS_LIKELY(meets(t, flags, r))) return V(t);
    } else {
        SizeNames own;
        if (ISTHMUS_LIKELY(meets(t, flags, r) && has_sizes(t, r.sizes, names != nullptr ? *names : own, argument)))
            return V(t);
    }
    SizeNames own;
    return explain_mismatch(t, flags, r, names != nullptr ? *names : own, argument);
}

}  // namespace detail

/// A typed, borrowed window: N sizes and N strides (in elements) over elements of type T. Does not own: it is valid as
/// long as the Tensor or Borrowed it came from. `T const` promises not to write. N may be dynamic_rank: the view then
/// shows the sizes of that Tensor or Borrowed, which must not move.
///
/// The constraints after N are checked before there is a view: View<const std::uint8_t, 3, sizes<"h w 3">,
/// c_contiguous>. Without a constraint on the device, the memory is one that the host may touch.
template <class T, int N, class... C>
class View : public detail::WindowOf<T, N, C...> {
    using Base = detail::WindowOf<T, N, C...>;
    using Wanted = detail::Wanted<T, N, C...>;

public:
    /// As std::span has them: `T`, and `T` without its const.
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr detail::Requirement requirement = Wanted::requirement;
    /// Whether the elements may be touched: the memory is the host's by the type of the view.
    static constexpr bool on_host = detail::is_host_type(requirement.device_type);
    /// Whether the type says that the elements of a row are neighbours.
    static constexpr bool has_contiguous_rows =
        requirement.order == detail::Order::c || requirement.order == detail::Order::inner;
    /// Whether the type says that all elements are neighbours.
    static constexpr bool is_known_contiguous = requirement.order == detail::Order::c ||
                                                requirement.order == detail::Order::f ||
                                                (N == 1 && requirement.order == detail::Order::inner);

    /// Of nothing: no elements.
    constexpr View() noexcept = default;
    View(T* data, const std::array<std::int64_t, static_cast<std::size_t>(N < 0 ? 0 : N)>& extents,
         const std::array<std::int64_t, static_cast<std::size_t>(N < 0 ? 0 : N)>& strides) noexcept
        requires(N >= 0 && sizeof...(C) == 0)
        : Base(data, detail::Layout<N>(extents, strides), detail::Where<true>()) {}

    /// A view that may write converts to one that only reads, and one that guarantees more to one that requires less.
    template <class U, class... D>
        requires((std::is_same_v<U, T> || std::is_same_v<U, const T>) && !std::is_same_v<View, View<U, N, D...>> &&
                 View<U, N, D...>::on_host == on_host && (detail::is_one_of<D, C...> && ...))
    operator View<U, N, D...>() const noexcept {
        return View<U, N, D...>(this->data(), *this, *this);
    }

    /// "uint8[h, w, 3] C-contiguous on cpu": what this type of view asks for.
    static constexpr std::string_view words() noexcept { return requirement.words; }

    /// The element at these indices, one per dimension. Checked in debug builds, or as
    /// ISTHMUS_CHECK_BOUNDS says.
    template <class... Index>
        requires(on_host && (N < 0 || sizeof...(Index) == static_cast<std::size_t>(N)) &&
                 (std::is_convertible_v<Index, std::int64_t> && ...))
    ISTHMUS_OF_THIS_FILE T& operator()(Index... index) const noexcept {
#if ISTHMUS_CHECK_BOUNDS
        if (static_cast<int>(sizeof...(Index)) != this->ndim())
            detail::wrong_index_count(static_cast<int>(sizeof...(Index)), this->ndim());
#endif
        std::int64_t offset = 0;
        [[maybe_unused]] int d = 0;  // unused in a view of no dimensions
        ((offset = step(offset, d++, static_cast<std::int64_t>(index))), ...);
        return this->data()[offset];
    }
    /// Element `i` of a view of one dimension. Checked in debug builds, or as
    /// ISTHMUS_CHECK_BOUNDS says.
    ISTHMUS_OF_THIS_FILE T& operator[](std::int64_t i) const noexcept
        requires(on_host && N == 1)
    {
        return this->data()[step(0, 0, i)];
    }
    /// The size of one dimension. One that the type names (sizes<"h w 3">) is a constant to the compiler, also of a
    /// view of nothing.
    ISTHMUS_OF_THIS_FILE std::int64_t extent(int dimension) const noexcept {
        if constexpr (N > 0 && requirement.size_count == N)
            if (dimension >= 0 && dimension < N && requirement.sizes[dimension].size != dyn)
                return requirement.sizes[dimension].size;
        return Base::extent(dimension);
    }

    /// The elements in memory order. Throws Error(bad_layout) when they are not contiguous, unless the type already
    /// says so.
    ISTHMUS_OUTLIVES std::span<T> span() const
        requires on_host
    {
        if constexpr (!is_known_contiguous)
            if (!this->is_contiguous()) throw detail::rearrange_error("span", this->strides_text());
        return {this->data(), static_cast<std::size_t>(this->size())};
    }
    /// One dimension is a span by itself, if its elements are contiguous: throws as span() does.
    template <class U>
        requires(on_host && N == 1 && !is_known_contiguous && (std::is_same_v<U, T> || std::is_same_v<U, const T>))
    operator std::span<U>() const {
        return span();
    }

    /// The elements of one dimension one after the other, whatever the stride.
    auto begin() const noexcept
        requires(on_host && N == 1)
    {
        if constexpr (is_known_contiguous)
            return this->data();
        else
            return detail::StridedIterator<T>(this->data(), this->strides()[0], 0);
    }
    /// As begin().
    auto end() const noexcept
        requires(on_host && N == 1)
    {
        return begin() + this->size();
    }
    /// Of more dimensions `for (auto& v : x)` does not compile: for_each visits every element, rows() every row.
    detail::use_for_each_or_rows begin() const
        requires(on_host && N != 1)
    = delete;
    /// As begin().
    detail::use_for_each_or_rows end() const
        requires(on_host && N != 1)
    = delete;

    /// The rows along the last dimension: spans if the type says that their elements are contiguous, else views of one
    /// dimension, whatever the stride, each of which converts to a span if it is contiguous: for (std::span<T> row :
    /// view.rows()).
    ISTHMUS_OUTLIVES auto rows() const noexcept
        requires on_host
    {
        using Row = std::conditional_t<has_contiguous_rows, std::span<T>, View<T, 1>>;
        return Rows<T, N, Row>(this->data(), *this);
    }

    /// As an mdspan; include <isthmus/mdspan.h>.
    template <class V = View>
    auto mdspan() const {
        return mdspan_of<V>::make(static_cast<const V&>(*this));
    }

private:
    template <class, int, class...>
    friend class View;
    template <class V>
    friend Result<V> detail::make_view(const DLTensor&, Flags, detail::SizeNames*, const char*);
    template <class V>
    friend V detail::view_of(const DLTensor&) noexcept;

    template <class, int, int, detail::Order>
    friend class detail::Window;

    explicit View(const DLTensor& t) noexcept : Base(t) {}
    View(T* data, const detail::Layout<N>& layout, const detail::Where<on_host>& where) noexcept
        : Base(data, layout, where) {}

    /// The offset with the index of one dimension more. What the type says of the strides is said to the compiler: it
    /// vectorises a loop whose step it knows.
    ISTHMUS_OF_THIS_FILE std::int64_t step(std::int64_t offset, int dimension, std::int64_t index) const noexcept {
        this->check_index(dimension, index);
        if constexpr (N > 0 && requirement.order == detail::Order::c)
            return offset * extent(dimension) + index;
        else if constexpr (N > 0 && has_contiguous_rows)
            return offset + (dimension == N - 1 ? index : index * this->stride(dimension));
        else
            return offset + index * this->stride(dimension);
    }
};

namespace detail {

/// The C++ types that visit() tries, and whether these are all that the set lets in.
template <class Set>
struct visited {
    static_assert(sizeof(Set) == 0, "isthmus: visit() of an open set needs #include <isthmus/visit.h>");
};
template <class... T>
struct visited<one_of<T...>> {
    using types = one_of<T...>;
    static constexpr bool is_whole = true;
};

ISTHMUS_COLD Error unvisited(DType dtype);
ISTHMUS_COLD Error not_of_type(DType wanted, DType found);

}  // namespace detail

/// A window on elements of one of a set of dtypes: View<one_of<float, double>, 2>, View<const floating, dynamic_rank>.
/// as<U>() and visit() give the view of the type that is there.
template <class S, int N, class... C>
    requires detail::DTypeSet<std::remove_cv_t<S>>
class View<S, N, C...> : public detail::Layout<N>,
                         public detail::Where<detail::is_of_host<detail::Wanted<S, N, C...>::requirement.device_type>> {
    using Base = detail::Layout<N>;
    using Wanted = detail::Wanted<S, N, C...>;
    using Where = detail::Where<detail::is_of_host<Wanted::requirement.device_type>>;
    using Set = std::remove_cv_t<S>;
    template <class U>
    using Typed = View<std::conditional_t<std::is_const_v<S>, const U, U>, N, C...>;

public:
    using element_type = S;
    static constexpr detail::Requirement requirement = Wanted::requirement;
    static constexpr bool on_host = detail::is_host_type(requirement.device_type);

    constexpr View() noexcept = default;
    static constexpr std::string_view words() noexcept { return requirement.words; }

    DType dtype() const noexcept { return dtype_; }
    /// Bytes of one element, and of all of them when compact.
    std::int64_t itemsize() const noexcept { return dtype_.itemsize(); }
    std::int64_t nbytes() const noexcept { return this->size() * itemsize(); }
    std::conditional_t<std::is_const_v<S>, const void, void>* data() const noexcept { return data_; }

    /// The view of elements of type U, or an Error when they are of another.
    template <class U>
        requires(!std::is_const_v<U> && has_dtype<U>)
    Result<Typed<U>> as() const {
        if (dtype_ == dtype_of<U>() && (reinterpret_cast<std::uintptr_t>(data_) % alignof(U) == 0 || this->empty()))
            return typed<U>();
        return detail::not_of_type(dtype_of<U>(), dtype_);
    }

    /// Calls `f` with the view of the type that is there: every one of one_of<…> must do. For the open sets (floating,
    /// any_dtype, …) those of isthmus/visit.h must; with explicit types, visit<float, double>(f), those alone.
    /// If the dtype is none of them it throws Error(bad_dtype).
    template <class... U, class F>
    decltype(auto) visit(F&& f) const {
        if constexpr (sizeof...(U) != 0)
            return visit_set<false>(std::type_identity<one_of<U...>>{}, f);
        else
            return visit_set<detail::visited<Set>::is_whole>(std::type_identity<typename detail::visited<Set>::types>{},
                                                             f);
    }

private:
    template <class V>
    friend Result<V> detail::make_view(const DLTensor&, Flags, detail::SizeNames*, const char*);
    template <class V>
    friend V detail::view_of(const DLTensor&) noexcept;

    explicit View(const DLTensor& t) noexcept : Base(t), Where(t), data_(t.data), dtype_(t.dtype) {
        this->template order_strides<requirement.order>();
    }

    template <class U>
    Typed<U> typed() const noexcept {
        using E = std::conditional_t<std::is_const_v<S>, const U, U>;
        return Typed<U>(static_cast<E*>(data_), *this, *this);
    }
    template <bool is_whole, class First, class... Rest, class F>
    decltype(auto) visit_set(std::type_identity<one_of<First, Rest...>>, F& f) const {
        if constexpr (sizeof...(Rest) == 0) {
            if constexpr (!is_whole)
                if (dtype_ != dtype_of<First>()) throw detail::unvisited(dtype_);
            return f(typed<First>());
        } else {
            if (dtype_ == dtype_of<First>()) return f(typed<First>());
            return visit_set<is_whole>(std::type_identity<one_of<Rest...>>{}, f);
        }
    }

    void* data_ = nullptr;
    DType dtype_{};
};

/// A view's iterators are valid as long as its memory is, also after the view itself is gone.
ISTHMUS_END
template <class T, int N, class... C>
inline constexpr bool std::ranges::enable_borrowed_range<isthmus::View<T, N, C...>> = true;
ISTHMUS_BEGIN

template <class T, int N, class... C>
Result<View<T, N, C...>> Tensor::view() const& {
    return detail::make_view<View<T, N, C...>>(block_->dl, block_->flags);
}
template <class V>
    requires detail::is_view<V>
Result<V> Tensor::view() const& {
    return detail::make_view<V>(block_->dl, block_->flags);
}

ISTHMUS_END
