// with_checked_sizes(), agreeing(): a function whose arguments' named sizes must agree, for a binder to bind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/distinct.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

inline constexpr const char* argument_places[] = {"1", "2", "3", "4", "5", "6", "7", "8"};

/// Compares the named sizes of an argument with those seen so far; throws the Error.
template <class X>
void agree(Match& match, const char* name, const X& argument) {
    auto compare = [&]<class V>([[maybe_unused]] const char* of, [[maybe_unused]] const V& view) {
        if constexpr (is_view<V>) match.agree(of, view).value();
    };
    each_tensor(name, argument, compare);
}

/// An argument that the function commits which takes it: with_checked_sizes() asks the binders for this, since it has
/// yet to compare the arguments. One that is made from a value directly has nothing to commit.
template <class X>
struct Uncommitted {
    X value{};
    ArgumentLoader<X>* loader = nullptr;  ///< in the binder's caster, which outlives the call
    Uncommitted() noexcept = default;
    Uncommitted(X made) : value(std::move(made)) {}
    void commit_or_throw() {
        if (loader != nullptr) loader->commit_or_throw();
    }
};
template <class X>
struct ArgumentLoader<Uncommitted<X>> {
    ArgumentLoader<X> loader;
    Loaded try_load(PyObject* object, Uncommitted<X>& value, bool last) noexcept {
        value.loader = &loader;
        return loader.try_load(object, value.value, last);
    }
    void note(PyObject* object, const void* call, auto& value) noexcept { note_in(loader, object, call, value.value); }
    void commit_or_throw() noexcept {}
};

/// Writes are notified, and capsules taken, once the sizes were found to agree.
template <class X>
inline constexpr bool is_deferred = is_view<X> || is_handle<X> || is_owned<X>;
template <class V, Literal... own>
inline constexpr bool is_deferred<Argument<V, own...>> = true;
template <class V>
inline constexpr bool is_deferred<std::optional<V>> = is_deferred<V> && std::is_copy_constructible_v<V>;

template <class X>
struct DeferredOf {
    using type = Uncommitted<X>&;  // the binder's own, which a refused call must find as it was
};
template <class V>
struct DeferredOf<std::optional<V>> {
    using type = std::optional<Uncommitted<V>>&;
};
/// The type that the binder loads in place of A.
template <class A, class X = std::remove_cvref_t<A>>
using Deferred = typename std::conditional_t<is_deferred<X>, DeferredOf<X>, std::type_identity<A>>::type;

template <class X>
X& value_of(X& argument) noexcept {
    return argument;
}
template <class X>
X& value_of(Uncommitted<X>& argument) noexcept {
    return argument.value;
}
template <class V>
std::optional<V> value_of(std::optional<Uncommitted<V>>& argument) noexcept {
    return argument ? std::optional<V>(argument->value) : std::nullopt;
}

template <class X>
void commit_one(X&) noexcept {}
template <class X>
void commit_one(Uncommitted<X>& argument) {
    argument.commit_or_throw();
}
template <class V>
void commit_one(std::optional<Uncommitted<V>>& argument) {
    if (argument) argument->commit_or_throw();
}

/// A function that may change itself when it is called, as a mutable lambda does: binders may call it as a constant.
template <class F>
struct Changing {
    mutable F f;
};

template <Literal function, class F, class R, class... A>
auto with_checked_sizes(F f, const char* const* names) {
    return [held = Changing<F>{std::move(f)}, names](Deferred<A>... arguments) -> R {
        Match match(function.text);
        const char* const* name = names;
        (agree(match, *name++, value_of(arguments)), ...);
        if constexpr ((is_distinct<std::remove_cvref_t<A>> || ...))
            check_distinct(function.text, names, value_of(arguments)...).value();
        (commit_one(arguments), ...);
        return held.f(static_cast<A&&>(value_of(arguments))...);
    };
}

template <Literal function, Literal... names, class F, class R, class... A>
auto with_checked_sizes(F f, R (*)(A...)) {
    static_assert(sizeof...(names) == 0 || sizeof...(names) == sizeof...(A),
                  "isthmus: with_checked_sizes<\"f\", \"a\", …> wants a name for each argument, or none");
    static_assert(sizeof...(names) != 0 || sizeof...(A) <= sizeof(argument_places) / sizeof(argument_places[0]),
                  "isthmus: a function of so many arguments needs their names: with_checked_sizes<\"f\", \"a\", …>");
    static constexpr const char* given[sizeof...(names) + 1] = {names.text..., nullptr};
    return with_checked_sizes<function, F, R, A...>(std::move(f), sizeof...(names) != 0 ? given : argument_places);
}

template <class C, class R, class... A>
auto signature_of(R (C::*)(A...) const) -> R (*)(A...);
template <class C, class R, class... A>
auto signature_of(R (C::*)(A...)) -> R (*)(A...);

}  // namespace detail

/// A function, or a lambda, whose arguments' named sizes must agree: the same function for a caster to bind, which
/// compares them first and throws the Error that names the function and the arguments. A caster converts each argument
/// on its own, so this cannot choose between overloads.
///
///     m.def("distance", isthmus::with_checked_sizes<"distance", "a", "b">(distance));
///
/// Without names the arguments are called by their place, '1', '2', …; an Argument keeps its own name.
template <detail::Literal function, detail::Literal... names, class R, class... A>
auto with_checked_sizes(R (*f)(A...)) {
    return detail::with_checked_sizes<function, names...>(f, f);
}
template <detail::Literal function, detail::Literal... names, class F>
    requires requires { &F::operator(); }
auto with_checked_sizes(F f) {
    return detail::with_checked_sizes<function, names...>(std::move(f),
                                                          decltype(detail::signature_of(&F::operator())){});
}
/// The same, by the name that it had first.
template <detail::Literal function, detail::Literal... names, class F>
auto agreeing(F f) {
    return with_checked_sizes<function, names...>(std::move(f));
}

ISTHMUS_END
