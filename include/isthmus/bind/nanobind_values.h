// nanobind's casters of dtypes, devices and Results; what has no caster stops the compiler. Part of isthmus/nanobind.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/nanobind.h>  // Python.h must come before any standard header

#include <isthmus/python/value_arguments.h>

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

template <class X>
struct isthmus_value_name {
    using Words = isthmus::detail::ValueWords<X>;
    static constexpr auto text() { return io_name(Words::argument, Words::result); }
};
template <class X>
    requires isthmus::detail::is_value<X>
struct isthmus_view_name<X> {
    static constexpr auto text() { return const_name(isthmus::detail::ValueWords<X>::argument); }
};
template <class X>
    requires isthmus::detail::is_value<X>
struct type_caster<X> : isthmus_argument_caster<X, isthmus_value_name<X>> {
    static handle from_cpp(const X& value, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::value_to_py(value);
    }
};

/// Stands where there is no caster, so that the sentence is the only error.
template <class X>
struct isthmus_no_caster {
    using Value = X;
    static constexpr auto Name = const_name("None");
    template <class U>
    using Cast = movable_cast_t<U>;
    template <class U>
    static constexpr bool can_cast() {
        return false;
    }
    template <class... A>
    bool from_python(A&&...) noexcept {
        return false;
    }
    template <class... A>
    static handle from_cpp(A&&...) noexcept {
        return {};
    }
    explicit operator X*();
    explicit operator X&();
    explicit operator X&&();
};
template <class X>
    requires isthmus::detail::stays_in_cpp<X>
struct type_caster<X> : isthmus_no_caster<X> {
    static_assert(sizeof(X*) == 0, ISTHMUS_STAYS_IN_CPP "; to bind it as a class: NB_MAKE_OPAQUE");
};

/// As a result: what it holds, or its Error as the Python exception; None for a Result<void>.
template <class T>
struct type_caster<isthmus::Result<T>> : isthmus_no_caster<isthmus::Result<T>> {
    using Held = make_caster<std::conditional_t<std::is_void_v<T>, void_type, T>>;
    static constexpr auto Name = Held::Name;

    ISTHMUS_NO_ARGUMENT(from_python)
    template <class R>
    static handle from_cpp(R&& result, rv_policy policy, cleanup_list* cleanup) noexcept {
        if (!result) return isthmus::set_python_error(result.error()), handle();
        if constexpr (std::is_void_v<T>)
            return none().release();
        else
            return Held::from_cpp(*std::forward<R>(result), policy, cleanup);
    }
};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
