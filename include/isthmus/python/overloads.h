// Why no overload takes the arguments of a call: the sentence of each, for the overload that a binder tries last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/container_arguments.h>  // Python.h must come before any standard header

#include <string>
#include <vector>

ISTHMUS_BEGIN

namespace detail {

/// A parameter as the author of the function named it.
struct ParameterName {
    const char* name;  ///< NULL if it was annotated and not named
    bool has_default;
};

/// The names among the extras that a binder gets beside the function: `name_` and `value` of nanobind's arg, `name` and
/// `value` of pybind11's.
template <class... Extra>
std::vector<ParameterName> parameter_names([[maybe_unused]] const Extra&... extra) {
    std::vector<ParameterName> names;
    [[maybe_unused]] const auto add = [&]<class E>([[maybe_unused]] const E& one) {
        constexpr bool has_default = requires { one.value; };
        if constexpr (requires { one.name_; })
            names.push_back({one.name_, has_default});
        else if constexpr (requires { one.name; })
            names.push_back({one.name, has_default});
    };
    (add(extra), ...);
    return names;
}

/// A call that no overload took. `args` and `kwargs` are borrowed; `kwargs` may be NULL.
struct RefusedCall {
    const char* function;
    PyObject* args;
    PyObject* kwargs;
    std::span<const ParameterName> names;  ///< empty, or one for each parameter but the instance of a method
};

/// Whether an object fits a parameter: false with the exception that says why not set.
using CheckArgument = bool (*)(PyObject* object, const char* name);
/// The parameters of one overload. A check is NULL for one that is not a tensor, which is left to the binder.
struct BoundOverload {
    const CheckArgument* checks;
    std::size_t count;
};

template <class A>
bool check_argument(PyObject* object, const char* name) {
    A value;
    ArgumentLoader<A> loader;
    return loader.load(object, value, nullptr, name, nullptr) == Loaded::yes;
}
template <class A>
inline constexpr bool is_checked = is_deferred<A> || is_value<A> || (holds_view<A, Borrowed, Tensor> && has_loader<A>);
template <class V>
inline constexpr bool is_checked<std::optional<V>> = is_checked<V>;
template <class A>
constexpr CheckArgument check_of() noexcept {
    if constexpr (is_checked<A>)
        return check_argument<A>;
    else
        return nullptr;
}

/// A pointer to a function with the parameters of what a binder binds: of a member function its instance first.
template <class F>
struct BoundSignature : BoundSignature<decltype(signature_of(&F::operator()))> {};
template <class R, class... A>
struct BoundSignature<R (*)(A...)> : std::type_identity<R (*)(A...)> {};
template <class R, class... A>
struct BoundSignature<R (*)(A...) noexcept> : std::type_identity<R (*)(A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...)> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) const> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) noexcept> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) const noexcept> : std::type_identity<R (*)(C*, A...)> {};

template <class F>
struct OverloadChecks;
template <class R, class... A>
struct OverloadChecks<R (*)(A...)> {
    static constexpr CheckArgument checks[] = {check_of<std::remove_cvref_t<A>>()..., nullptr};
    static constexpr BoundOverload facts{checks, sizeof...(A)};
};

/// Sets the TypeError of a call that none of the functions takes, or what passed through while they were asked.
void raise_overloads(const RefusedCall& call, const BoundOverload* overloads, std::size_t count);
template <auto... f>
void raise_overloads(const RefusedCall& call) {
    static constexpr BoundOverload overloads[] = {
        OverloadChecks<typename BoundSignature<std::remove_cv_t<decltype(f)>>::type>::facts...};
    raise_overloads(call, overloads, sizeof...(f));
}

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_OVERLOADS)
#endif
