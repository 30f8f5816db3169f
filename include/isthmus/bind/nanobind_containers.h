// nanobind's optional of the library's types; other containers stop the compiler. Part of isthmus/nanobind.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/nanobind.h>  // Python.h must come before any standard header

#include <isthmus/bind/nanobind_values.h>
#include <isthmus/python/container_results.h>

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

#if !defined(ISTHMUS_NANOBIND_HOLDS_PAIRS)
/// A pair or tuple of what is borrowed, as <isthmus/nanobind_stl.h> makes it.
template <class X>
struct isthmus_held_caster : isthmus_no_caster<X> {
    static_assert(sizeof(X*) == 0,
                  "isthmus: with nanobind before 3.1 include <isthmus/nanobind_stl.h> for a pair or tuple of views or "
                  "tensors");
};
template <class A, class B>
    requires(isthmus::detail::carries_ours<A> || isthmus::detail::carries_ours<B>)
struct type_caster<std::pair<A, B>> : isthmus_held_caster<std::pair<A, B>> {};
template <class... E>
    requires(isthmus::detail::carries_ours<E> || ...)
struct type_caster<std::tuple<E...>> : isthmus_held_caster<std::tuple<E...>> {};
#endif

template <template <class...> class C, class... E>
    requires isthmus::detail::contains_ours<C<E...>>
struct type_caster<C<E...>> : isthmus_no_caster<C<E...>> {
    static_assert(sizeof(C<E...>*) == 0,
                  "isthmus: for a container of tensors include <isthmus/nanobind_stl.h>; to bind it as a class: "
                  "NB_MAKE_OPAQUE");
};
template <template <class, std::size_t> class C, class E, std::size_t n>
    requires isthmus::detail::contains_ours<C<E, n>>
struct type_caster<C<E, n>> : isthmus_no_caster<C<E, n>> {
    static_assert(sizeof(C<E, n>*) == 0, "isthmus: for an array of tensors include <isthmus/nanobind_stl.h>");
};

/// Any tensor, a dtype or a device, or None; the loader is that of std::optional.
template <class X>
concept isthmus_one = isthmus::detail::is_handle<X> || isthmus::detail::is_owned<X> || isthmus::detail::is_value<X>;
template <class X>
struct isthmus_maybe_one_name {
    static constexpr auto text() { return optional_name(type_caster<X>::Name); }
};
template <isthmus_one X>
struct type_caster<std::optional<X>> : isthmus_argument_caster<std::optional<X>, isthmus_maybe_one_name<X>> {
    template <class O>
    static handle from_cpp(O&& value, rv_policy policy, cleanup_list* cleanup) noexcept {
        return value.has_value() ? type_caster<X>::from_cpp(*std::forward<O>(value), policy, cleanup)
                                 : none().release();
    }
};
template <>
struct type_caster<std::optional<isthmus::Borrowed>>
    : isthmus_borrowing_caster<std::optional<isthmus::Borrowed>, isthmus_maybe_one_name<isthmus::Borrowed>> {};

// None is welcome, as <nanobind/stl/optional.h> has it for its own; before 2.11 the author writes nb::arg().none(). The
// signature then says so once.
template <class X>
concept isthmus_optional = isthmus::detail::carries_ours<X>;
template <isthmus_optional X>
struct remove_opt_mono<std::optional<X>> : remove_opt_mono<X> {};
#if defined(ISTHMUS_NANOBIND_KNOWS_DEFAULTS)
template <isthmus_optional X>
struct has_arg_defaults<std::optional<X>> : std::true_type {};
#endif

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
