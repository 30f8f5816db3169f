// Containers of tensors as arguments of the bare API, and for the sentence of an overload that does not take one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/containers.h>  // Python.h must come before any standard header

#include <isthmus/python/agreeing.h>
#include <isthmus/python/call_arguments.h>

ISTHMUS_BEGIN

namespace detail {

/// Raises at once, with the name of the argument and the place of the element.
struct BareBinder {
    struct How {
        const char* function;
        const char* argument;
    };
    template <class E>
    struct Element {
        E value{};
        ArgumentLoader<E> loader;

        bool load(PyObject* object, const How& how) { return BareBinder::load(loader, object, value, how); }
        E take() {
            if constexpr (requires { loader.commit_or_throw(); }) loader.commit_or_throw();
            return std::move(value);
        }
    };
    template <class Loader, class E>
    static bool load(Loader& loader, PyObject* object, E& value, const How& how) {
        return loader.load(object, value, how.function, how.argument, nullptr) == Loaded::yes;
    }
    template <class Loader, class E>
    static bool load_named(Loader& loader, PyObject* object, E& value, const How& how) {
        const char* function = E::function_name != nullptr ? E::function_name : how.function;
        return loader.load(object, value, function, how.argument, nullptr) == Loaded::yes;
    }
    static bool raise() noexcept { return false; }
    /// Raises for an object that is not such a container, if nothing within it was refused.
    template <class E>
    static void refuse(PyObject* object, const How& how) noexcept;
};

/// Whether an element can be read by a loader alone.
template <class X>
inline constexpr bool has_loader =
    is_deferred<X> || is_value<X> || std::is_arithmetic_v<X> || std::is_same_v<X, std::string>;
/// The containers that are made of such elements, and what one is called in an error.
template <class X>
inline constexpr const char* bare_container = nullptr;
template <class X>
    requires(bare_container<X> != nullptr)
inline constexpr bool has_loader<X> = true;
template <class E, class A>
    requires has_loader<E>
inline constexpr const char* bare_container<std::vector<E, A>> = "a sequence of tensors";
template <class E, class A>
    requires has_loader<E>
inline constexpr const char* bare_container<std::list<E, A>> = "a sequence of tensors";
template <class E, class A>
    requires has_loader<E>
inline constexpr const char* bare_container<std::deque<E, A>> = "a sequence of tensors";
template <class E, std::size_t n>
    requires has_loader<E>
inline constexpr const char* bare_container<std::array<E, n>> = "a sequence of as many elements";
template <class... E>
    requires(has_loader<E> && ...)
inline constexpr const char* bare_container<std::tuple<E...>> = "a sequence of as many elements";
template <class A, class B>
    requires(has_loader<A> && has_loader<B>)
inline constexpr const char* bare_container<std::pair<A, B>> = "a sequence of two elements";
template <class K, class E, class... R>
    requires(has_loader<K> && has_loader<E>)
inline constexpr const char* bare_container<std::map<K, E, R...>> = "a mapping of tensors";
template <class K, class E, class... R>
    requires(has_loader<K> && has_loader<E>)
inline constexpr const char* bare_container<std::unordered_map<K, E, R...>> = "a mapping of tensors";

template <class E>
void BareBinder::refuse(PyObject* object, const How& how) noexcept {
    if (PyErr_Occurred() == nullptr) raise_type(how.function, how.argument, bare_container<E>, object);
}

template <class X>
    requires(bare_container<X> != nullptr)
struct ArgumentLoader<X> {
    Contents<BareBinder, X> contents;
    X* value = nullptr;

    Loaded load(PyObject* object, X& to, const char* function, const char* argument, Match*) noexcept {
        value = &to;
        return surviving_exit([&] {
            try {
                if (contents.load(object, {function, argument})) return Loaded::yes;
            } catch (const std::bad_alloc&) {
                PyErr_NoMemory();
            }
            BareBinder::refuse<X>(object, {function, argument});
            return Loaded::raised;
        });
    }
    /// Makes the container of its elements.
    bool commit(const char* function, const char*) noexcept {
        try {
            *value = contents.take();
            return true;
        } catch (const Error& error) {
            return raise_in_call(argument_error(error, function)) == Loaded::yes;
        } catch (const std::bad_alloc&) {
            return PyErr_NoMemory(), false;
        }
    }
    void commit_or_throw() { *value = contents.take(); }
    static void roll_back(PyObject*, X&) noexcept {}  // each element ends with its loader
};

}  // namespace detail

ISTHMUS_END
