// pybind11's casters of containers of what is borrowed: each element is held for the call. Part of isthmus/pybind11.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/pybind11.h>  // Python.h must come before any standard header

#include <isthmus/bind/pybind11_values.h>
#include <isthmus/python/containers.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether an optional of it is one argument, rather than a container.
template <class X>
inline constexpr bool borrows_one = is_view<X>;
template <class V, Literal... names>
inline constexpr bool borrows_one<Argument<V, names...>> = true;
template <class X>
inline constexpr bool borrows_one<Uncommitted<X>> = true;

/// pybind11 itself lets an element's caster end before the call, and the elements of a sequence that makes them; here
/// each of them is kept.
struct PybindBinder {
    struct How {
        bool convert;
        const char* argument = nullptr;

        bool converts() const noexcept { return convert; }
        How without_conversions() const noexcept { return {false, argument}; }
    };
    template <class E>
    struct Element {
        pybind11::detail::make_caster<E> caster;
        Element() noexcept {}  // NOLINT(modernize-use-equals-default): Element() would write zeros first
        bool load(PyObject* object, const How& how) { return caster.load(object, how.convert); }
        decltype(auto) take() { return pybind11::detail::cast_op<E&&>(std::move(caster)); }
    };
    static bool load(auto& loader, PyObject* object, auto& value, const How& how) {
        return pybind11_load(loader, object, value, how.convert);
    }
    template <class E>
    static bool load_named(ArgumentLoader<E>& loader, PyObject* object, E& value, const How& how) {
        return pybind11_finish(loader.load(object, value, E::function_name, how.argument, nullptr));
    }
    static bool raise() { raise_in_pybind11(); }
};

/// A container that may be a result, or be cast by hand.
template <class X>
struct PybindReturned {
    template <class U>
    using cast_op_type = pybind11::detail::movable_cast_op_type<U>;

    template <class C>
    static pybind11::handle cast(C&& container, pybind11::return_value_policy policy, pybind11::handle parent) {
        PyObject* made = container_to_py(std::forward<C>(container), [&]<class E>(E&& element) {
            using Policy = pybind11::detail::return_value_policy_override<E>;
            return pybind11::detail::make_caster<E>::cast(std::forward<E>(element), Policy::policy(policy), parent)
                .ptr();
        });
        if (made == nullptr && PyErr_Occurred() != nullptr) raise_in_pybind11();
        return made;
    }
};
template <class X>
struct PybindContainer : std::conditional_t<borrows<X>, PybindBorrowed<X>, PybindReturned<X>> {
    using Base = std::conditional_t<borrows<X>, PybindBorrowed<X>, PybindReturned<X>>;

    PybindContainer() = default;
    PybindContainer(PybindContainer&& other) noexcept(false) : Base(std::move(other)) {  // by pybind11::cast
        if constexpr (!borrows<X>) loader_.value.emplace(std::move(other.loader_.get()));
    }
    operator X*() { return &loader_.get(); }
    operator X&() { return loader_.get(); }
    operator X&&() && { return std::move(loader_.get()); }

    bool load(pybind11::handle src, bool convert) { return loader_.load(src.ptr(), {convert}); }

private:
    ContainerLoader<PybindBinder, X> loader_;
};

}  // namespace detail

ISTHMUS_END

namespace PYBIND11_NAMESPACE {
namespace detail {

/// pybind11 before 3 has one name for both ways.
template <std::size_t n, std::size_t m>
constexpr auto isthmus_input_name(const char (&argument)[n], [[maybe_unused]] const char (&result)[m]) {
#if PYBIND11_VERSION_MAJOR >= 3
    return io_name(argument, result);
#else
    return const_name(argument);
#endif
}
template <class E>
struct isthmus_sequence_caster_name {
    static constexpr auto name =
        isthmus_input_name("collections.abc.Sequence[", "list[") + make_caster<E>::name + const_name("]");
};
template <class K, class E>
struct isthmus_map_caster_name {
    static constexpr auto name = isthmus_input_name("collections.abc.Mapping[", "dict[") +
                                 concat(make_caster<K>::name, make_caster<E>::name) + const_name("]");
};
template <class... E>
struct isthmus_tuple_caster_name {
    static constexpr auto name = const_name("tuple[") + concat(make_caster<E>::name...) + const_name("]");
};
template <class First, class... E>
struct isthmus_union_caster_name {
    static constexpr auto name = (make_caster<First>::name + ... + (const_name(" | ") + make_caster<E>::name));
};
template <class E>
struct isthmus_optional_caster_name {
    static constexpr auto name = make_caster<E>::name + const_name(" | None");
};

template <class E, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::vector<E, A>> : isthmus::detail::PybindContainer<std::vector<E, A>>,
                                        isthmus_sequence_caster_name<E> {};
template <class E, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::list<E, A>> : isthmus::detail::PybindContainer<std::list<E, A>>,
                                      isthmus_sequence_caster_name<E> {};
template <class E, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::deque<E, A>> : isthmus::detail::PybindContainer<std::deque<E, A>>,
                                       isthmus_sequence_caster_name<E> {};
template <class E, std::size_t n>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::array<E, n>> : isthmus::detail::PybindContainer<std::array<E, n>>,
                                       isthmus_sequence_caster_name<E> {};
template <class K, class E, class C, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::map<K, E, C, A>> : isthmus::detail::PybindContainer<std::map<K, E, C, A>>,
                                           isthmus_map_caster_name<K, E> {};
template <class K, class E, class H, class Q, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::unordered_map<K, E, H, Q, A>>
    : isthmus::detail::PybindContainer<std::unordered_map<K, E, H, Q, A>>, isthmus_map_caster_name<K, E> {};
template <class E>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::optional<E>>
    : std::conditional_t<isthmus::detail::borrows_one<E>, isthmus::detail::PybindBorrowing<std::optional<E>>,
                         isthmus::detail::PybindContainer<std::optional<E>>>,
      isthmus_optional_caster_name<E> {};
template <class... E>
    requires(isthmus::detail::carries_ours<E> || ...)
struct type_caster<std::variant<E...>> : isthmus::detail::PybindContainer<std::variant<E...>>,
                                         isthmus_union_caster_name<E...> {};
template <class A, class B>
    requires(isthmus::detail::carries_ours<A> || isthmus::detail::carries_ours<B>)
struct type_caster<std::pair<A, B>> : isthmus::detail::PybindContainer<std::pair<A, B>>,
                                      isthmus_tuple_caster_name<A, B> {};
template <class... E>
    requires(isthmus::detail::carries_ours<E> || ...)
struct type_caster<std::tuple<E...>> : isthmus::detail::PybindContainer<std::tuple<E...>>,
                                       isthmus_tuple_caster_name<E...> {};

template <template <class...> class C, class... E>
    requires isthmus::detail::contains_ours<C<E...>>
struct type_caster<C<E...>> : isthmus_no_caster<C<E...>> {
    static_assert(sizeof(C<E...>*) == 0,
                  "isthmus: of the containers of tensors a function takes and returns std::vector, list, deque, array, "
                  "map, unordered_map, optional, variant, pair and tuple; to bind it as a class: PYBIND11_MAKE_OPAQUE");
};

}  // namespace detail
}  // namespace PYBIND11_NAMESPACE
