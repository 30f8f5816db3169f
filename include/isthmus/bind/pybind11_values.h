// pybind11's casters of dtypes, devices and Results; what has no caster stops the compiler. Part of isthmus/pybind11.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/pybind11.h>  // Python.h must come before any standard header

#include <isthmus/python/value_arguments.h>

namespace PYBIND11_NAMESPACE {
namespace detail {

template <class X>
    requires isthmus::detail::is_value<X>
struct type_caster<X> : isthmus::detail::PybindArgument<X> {
    using Words = isthmus::detail::ValueWords<X>;
    type_caster() = default;
    type_caster(type_caster&& other) noexcept { this->value = other.value; }  // pybind11::cast hands the caster out

#if PYBIND11_VERSION_MAJOR >= 3
    static constexpr auto name = io_name(Words::argument, Words::result);
#else
    static constexpr auto name = const_name(Words::result);
#endif
    static handle cast(const X& value, return_value_policy, handle) {
        return isthmus::detail::made(isthmus::detail::value_to_py(value));
    }
};

/// Stands where there is no caster, so that the sentence is the only error.
template <class X>
struct isthmus_no_caster {
    static constexpr auto name = const_name("None");
    template <class U>
    using cast_op_type = movable_cast_op_type<U>;
    template <class... A>
    bool load(A&&...) {
        return false;
    }
    template <class... A>
    static handle cast(A&&...) {
        return {};
    }
    operator X*();
    operator X&();
    operator X&&() &&;
};
template <class X>
    requires isthmus::detail::stays_in_cpp<X>
struct type_caster<X> : isthmus_no_caster<X> {
    static_assert(sizeof(X*) == 0, ISTHMUS_STAYS_IN_CPP "; to bind it as a class: PYBIND11_MAKE_OPAQUE");
};

/// As a result: what it holds, or its Error as the Python exception; None for a Result<void>.
template <class T>
struct type_caster<isthmus::Result<T>> : isthmus_no_caster<isthmus::Result<T>> {
    using Held = make_caster<std::conditional_t<std::is_void_v<T>, void_type, T>>;
    static constexpr auto name = Held::name;

    ISTHMUS_NO_ARGUMENT(load)
    template <class R>
    static handle cast(R&& result, return_value_policy policy, handle parent) {
        if (!result) isthmus::set_python_error(result.error());
        if (!result) isthmus::detail::raise_in_pybind11();
        if constexpr (std::is_void_v<T>)
            return none().release();
        else
            return Held::cast(*std::forward<R>(result), return_value_policy_override<T>::policy(policy), parent);
    }
};

}  // namespace detail
}  // namespace PYBIND11_NAMESPACE
