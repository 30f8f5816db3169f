// Containers for nanobind's functions: of views as arguments, of tensors as results (vector, map, optional, variant).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/nanobind.h>  // Python.h must come before any standard header

// Of elements that are not ours.
#include <nanobind/stl/array.h>
#include <nanobind/stl/list.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <isthmus/python/containers.h>

ISTHMUS_BEGIN

namespace detail {

/// The containers that nanobind itself has let an element's caster end before the call; here each of them is kept.
struct NanobindBinder {
    struct How {
        std::uint32_t flags;
        nanobind::detail::cleanup_list* cleanup;
        const char* argument = nullptr;

        static constexpr auto conversions = static_cast<std::uint32_t>(nanobind::detail::cast_flags::convert);
        bool converts() const noexcept { return (flags & conversions) != 0; }
        How without_conversions() const noexcept { return {flags & ~conversions, cleanup, argument}; }
    };
    template <class E>
    struct Element {
        nanobind::detail::make_caster<E> caster;

        Element() noexcept {}  // NOLINT(modernize-use-equals-default): Element() would write zeros first
        bool load(PyObject* object, const How& how) {
            if (!caster.from_python(object, nanobind::detail::flags_for_local_caster<E>(how.flags), how.cleanup))
                return false;
            if constexpr (borrows<E>)
                return true;
            else
                return caster.template can_cast<E>();
        }
        decltype(auto) take() { return caster.operator nanobind::detail::cast_t<E>(); }
    };
    template <class E>
    static bool load(ArgumentLoader<E>& loader, PyObject* object, E& value, const How& how) {
        return nanobind_load(loader, object, nanobind::detail::flags_for_local_caster<E>(how.flags), value,
                             how.cleanup);
    }
    template <class E>
    static bool load_named(ArgumentLoader<E>& loader, PyObject* object, E& value, const How& how) {
        const Loaded loaded = loader.load(object, value, E::function_name, how.argument, nullptr);
        if (!nanobind_finish(loaded)) return false;
        if (default_result.reply && how.cleanup != nullptr) loader.note(object, how.cleanup, value);
        return true;
    }
    static bool raise() { nanobind::raise_python_error(); }
};

}  // namespace detail

ISTHMUS_END

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

/// A container that may be a result, or be cast by hand.
struct isthmus_returned_container {
    template <class T>
    static constexpr bool can_cast() {
        return true;
    }
    template <class C>
    static handle from_cpp(C* container, rv_policy policy, cleanup_list* cleanup) noexcept {
        return container != nullptr ? from_cpp(*container, policy, cleanup) : none().release();
    }
    template <class C>
    static handle from_cpp(C&& container, rv_policy policy, cleanup_list* cleanup) noexcept {
        return isthmus::detail::container_to_py(std::forward<C>(container), [&]<class E>(E&& element) {
            return make_caster<E>::from_cpp(std::forward<E>(element), policy, cleanup).ptr();
        });
    }
};
template <class X, class Text>
struct isthmus_container_caster
    : std::conditional_t<isthmus::detail::borrows<X>, isthmus_refused_outside_a_call, isthmus_returned_container> {
    using Value = X;
    static constexpr auto Name = Text::text();
    template <class T>
    using Cast = movable_cast_t<T>;
    explicit operator X*() { return &loader.get(); }
    explicit operator X&() { return loader.get(); }
    explicit operator X&&() { return static_cast<X&&>(loader.get()); }

    ISTHMUS_FOLDED bool from_python(handle src, std::uint32_t flags, cleanup_list* cleanup,
                                    const char* caller = ISTHMUS_CALLER) {
        return isthmus::detail::nanobind_try(
            caller, [&] { return may_load(flags) && loader.load(src.ptr(), {flags, cleanup}); });
    }

private:
    static constexpr bool may_load(std::uint32_t flags) noexcept {
        return !isthmus::detail::borrows<X> || isthmus::detail::is_call(flags);
    }
    isthmus::detail::ContainerLoader<isthmus::detail::NanobindBinder, X> loader;
};

template <class E>
struct isthmus_sequence_name {
    static constexpr auto text() {
        return io_name("collections.abc.Sequence[", "list[") + make_caster<E>::Name + const_name("]");
    }
};
template <class K, class E>
struct isthmus_map_name {
    static constexpr auto text() {
        return io_name("collections.abc.Mapping[", "dict[") + concat(make_caster<K>::Name, make_caster<E>::Name) +
               const_name("]");
    }
};
template <class E>
struct isthmus_maybe_name {
    static constexpr auto text() { return optional_name(make_caster<E>::Name); }
};
template <class... E>
struct isthmus_union_name {
    static constexpr auto text() { return union_name(make_caster<E>::Name...); }
};

template <class E, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::vector<E, A>> : isthmus_container_caster<std::vector<E, A>, isthmus_sequence_name<E>> {};
template <class E, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::list<E, A>> : isthmus_container_caster<std::list<E, A>, isthmus_sequence_name<E>> {};
template <class E, std::size_t n>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::array<E, n>> : isthmus_container_caster<std::array<E, n>, isthmus_sequence_name<E>> {};
template <class K, class E, class C, class A>
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::map<K, E, C, A>> : isthmus_container_caster<std::map<K, E, C, A>, isthmus_map_name<K, E>> {};
template <class K, class E, class H, class Q>  // with the usual allocator, as <nanobind/stl/unordered_map.h> has it
    requires isthmus::detail::carries_ours<E>
struct type_caster<std::unordered_map<K, E, H, Q>>
    : isthmus_container_caster<std::unordered_map<K, E, H, Q>, isthmus_map_name<K, E>> {};
template <class E>
    requires(isthmus::detail::carries_ours<E> && !isthmus_one<E>)
struct type_caster<std::optional<E>> : isthmus_container_caster<std::optional<E>, isthmus_maybe_name<E>> {};
template <class... E>
struct isthmus_tuple_name {
    static constexpr auto text() { return const_name("tuple[") + concat(make_caster<E>::Name...) + const_name("]"); }
};
#if defined(ISTHMUS_NANOBIND_HOLDS_PAIRS)
template <class A, class B>
    requires(isthmus::detail::carries_ours<A> || isthmus::detail::carries_ours<B>)
struct type_caster<std::pair<A, B>> : isthmus_container_caster<std::pair<A, B>, isthmus_tuple_name<A, B>> {};
template <class... E>
    requires(isthmus::detail::carries_ours<E> || ...)
struct type_caster<std::tuple<E...>> : isthmus_container_caster<std::tuple<E...>, isthmus_tuple_name<E...>> {};
#else
template <class A, class B>
struct isthmus_held_caster<std::pair<A, B>> : isthmus_container_caster<std::pair<A, B>, isthmus_tuple_name<A, B>> {};
template <class... E>
struct isthmus_held_caster<std::tuple<E...>> : isthmus_container_caster<std::tuple<E...>, isthmus_tuple_name<E...>> {};
#endif
template <class... E>
    requires(isthmus::detail::carries_ours<E> || ...)
struct type_caster<std::variant<E...>> : isthmus_container_caster<std::variant<E...>, isthmus_union_name<E...>> {};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
