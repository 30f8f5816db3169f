// Containers of the library's types: which types they are, and the list, dict or tuple that one is as a result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/value_arguments.h>  // Python.h must come before any standard header

#include <utility>

ISTHMUS_BEGIN

namespace detail {

/// Whether a function may take or return a type of the library's.
template <class X>
inline constexpr bool is_ours = is_view<X> || is_owned<X> || HasFields<X> || is_handle<X> || is_value<X> ||
                                std::is_same_v<X, Reply> || is_result<X> || requires { X::isthmus_annotation; };
template <class V, Literal... names>
inline constexpr bool is_ours<Argument<V, names...>> = true;
template <Framework framework>
inline constexpr bool is_ours<As<framework>> = true;

/// Whether a type is one of ours, or a class template of one.
template <class X>
inline constexpr bool carries_ours = is_ours<X>;
template <template <class...> class C, class... E>
    requires(!is_ours<C<E...>>)
inline constexpr bool carries_ours<C<E...>> = (carries_ours<std::remove_cvref_t<E>> || ...);
template <template <class, std::size_t> class C, class E, std::size_t n>  // std::array
inline constexpr bool carries_ours<C<E, n>> = carries_ours<E>;

// By what they have, since this reads no header of a container.
template <class X>
concept OptionalLike = requires(const X& x) {
    typename X::value_type;
    x.has_value();
    *x;
} && !is_result<X>;
template <class X>
concept VariantLike = requires(const X& x) {
    x.valueless_by_exception();
    x.index();
};
template <class X>
concept TupleLike = requires { std::tuple_size<X>::value; };
template <class X>
concept RangeLike = requires(const X& x) {
    typename X::value_type;
    x.begin();
    x.end();
};
template <class X>
concept MapLike = RangeLike<X> && requires { typename X::mapped_type; };
/// A container of the standard library. A user's own class template is the business of who binds it.
template <class X>
concept std_container = OptionalLike<X> || VariantLike<X> || TupleLike<X> || requires {
    typename X::value_type;
    typename X::allocator_type;
};
/// Such a container of the library's types.
template <class X>
inline constexpr bool contains_ours = false;
template <class X>
    requires(carries_ours<X> && !is_ours<X>)
inline constexpr bool contains_ours<X> = std_container<X>;

/// An element of a container as the container itself was passed: what is only referred to is not moved from.
template <class C, class E>
auto&& forward_element(E& element) noexcept {
    if constexpr (std::is_lvalue_reference_v<C>)
        return std::as_const(element);
    else
        return std::move(element);
}

template <class X, class Each, std::size_t... i>
PyObject* tuple_to_py(X&& x, const Each& each, std::index_sequence<i...>) {
    using std::get;
    const Ref tuple(PyTuple_New(sizeof...(i)));
    const auto put = [&](Py_ssize_t index, auto&& element) {
        PyObject* made = each(std::forward<decltype(element)>(element));
        return made != nullptr && PyTuple_SetItem(tuple.get(), index, made) == 0;
    };
    const bool whole = tuple && (put(i, get<i>(std::forward<X>(x))) && ...);
    return whole ? Py_NewRef(tuple.get()) : nullptr;
}

/// A list, dict, tuple, None or one element; NULL with the exception set. `each` makes a new reference of an element,
/// or sets the exception.
template <class C, class Each>
PyObject* container_to_py(C&& x, const Each& each) {
    using X = std::remove_cvref_t<C>;
    if constexpr (OptionalLike<X>) {
        return x.has_value() ? each(*std::forward<C>(x)) : Py_NewRef(Py_None);
    } else if constexpr (VariantLike<X>) {
        return visit(each, std::forward<C>(x));
    } else if constexpr (MapLike<X>) {
        Ref dict(PyDict_New());
        for (auto& [name, element] : x) {
            const Ref key(dict ? each(name) : nullptr);
            const Ref made(key ? each(forward_element<C>(element)) : nullptr);
            if (!made || PyDict_SetItem(dict.get(), key.get(), made.get()) != 0) return nullptr;
        }
        return dict.release();
    } else if constexpr (RangeLike<X>) {
        Ref list(PyList_New(0));
        for (auto&& element : x) {
            const Ref made(list ? each(forward_element<C>(element)) : nullptr);
            if (!made || PyList_Append(list.get(), made.get()) != 0) return nullptr;
        }
        return list.release();
    } else {
        return tuple_to_py(std::forward<C>(x), each, std::make_index_sequence<std::tuple_size_v<X>>());
    }
}

}  // namespace detail

ISTHMUS_END
