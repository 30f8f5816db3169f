// Containers of views as arguments: every element's object, and what was borrowed from it, is held for the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/container_elements.h>  // Python.h must come before any standard header

#include <array>
#include <deque>
#include <list>
#include <map>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

ISTHMUS_BEGIN

namespace detail {

// One Contents per shape of container: load() reads the elements and keeps what reads them, take() makes the container
// of them. A Binder has How, its state while arguments are read, with the name of the argument if that is known;
// Element<E>, its own caster of one element, which stays where it is made; load() and load_named(), which read what has
// an ArgumentLoader; and raise(), which throws the Python exception that is set.

template <class Binder, class X>
struct Contents;

/// Reads elements of such a type one after the other: the same loader serves all that leave nothing to hold.
template <class Binder, class E>
class CompleteElements {
    struct Held {
        ArgumentLoader<E> loader;
        Py_ssize_t place;
        Held() noexcept {}
    };

public:
    /// `value` stays where it is until commit().
    bool load(PyObject* object, E& value, const typename Binder::How& how, Py_ssize_t place) {
        static_assert(!is_distinct<E>, ISTHMUS_NOT_COMPARED);
        if (free_ == nullptr) free_ = &held_.add();
        free_->place = place;
        if constexpr (is_named<E>) {
            if (!Binder::load_named(free_->loader, object, value, how)) return false;
        } else {
            if (!Binder::load(free_->loader, object, value, how)) return false;
        }
        if (!is_done(free_->loader)) free_ = nullptr;
        return true;
    }
    void commit() {
        held_.for_each([&](Held& held) {
            if (&held == free_) return;
            if constexpr (is_named<E>)
                commit_element(held.loader, E::function_name, E::argument_name, held.place);
            else
                commit_element(held.loader, nullptr, nullptr, held.place);
        });
    }
    void clear() noexcept {
        held_.clear();
        free_ = nullptr;
    }

private:
    Elements<Held> held_;
    Held* free_ = nullptr;
};

/// Any number of elements, all of one type.
template <class Binder, class X, class E>
struct SequenceContents {
    Ref held;
    Elements<ElementOf<Binder, E>> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        if (const Loaded read = hold_elements(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        Places<Binder, E> places(how);
        for (Py_ssize_t i = 0; i < PyTuple_Size(held.get()); ++i)
            if (!elements.add().load(tuple_item(held.get(), i), places.of(i))) return false;
        return true;
    }
    X take() {
        X made;
        elements.for_each([&](auto& element) { made.push_back(element.take()); });
        return made;
    }
};
template <class Binder, class X, class E>
    requires is_complete<E>
struct SequenceContents<Binder, X, E> {
    Ref held;
    X made;
    CompleteElements<Binder, E> elements;  // ends first: it may end what an element of `made` has

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        made.clear();
        if (const Loaded read = hold_elements(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        const Py_ssize_t size = PyTuple_Size(held.get());
        if constexpr (requires { made.reserve(std::size_t{}); }) made.reserve(static_cast<std::size_t>(size));
        Places<Binder, E> places(how);
        for (Py_ssize_t i = 0; i < size; ++i)
            if (!elements.load(tuple_item(held.get(), i), made.emplace_back(), places.of(i), i)) return false;
        return true;
    }
    X take() {
        elements.commit();
        return std::move(made);
    }
};

/// So many elements, each of its own type.
template <class Binder, class X, class... E>
struct TupleContents {
    Ref held;
    std::tuple<ElementOf<Binder, E>...> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        if (const Loaded read = hold_elements(object, held, sizeof...(E)); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        Py_ssize_t at = -1;
        const auto next = [&]<class One>(ElementOf<Binder, One>& element) {
            Places<Binder, One> places(how);
            ++at;
            return element.load(tuple_item(held.get(), at), places.of(at));
        };
        return std::apply([&](auto&... element) { return (next(element) && ...); }, elements);
    }
    X take() {
        return std::apply([](auto&... element) { return X{element.take()...}; }, elements);
    }
};

template <class Binder, class X, class K, class E>
struct MapContents {
    struct Item {
        ElementOf<Binder, K> key;
        ElementOf<Binder, E> value;
    };
    Ref held;
    Elements<Item> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        if (const Loaded read = hold_items(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        Places<Binder, E> places(how);
        for (Py_ssize_t i = 0; i < PyList_Size(held.get()); ++i) {
            PyObject* item = list_item(held.get(), i);
            PyObject* name = tuple_item(item, 0);
            auto& [key, value] = elements.add();
            if (!key.load(name, how)) return false;
            const auto* of_value = places.of(name);
            if (of_value == nullptr) return Binder::raise();
            if (!value.load(tuple_item(item, 1), *of_value)) return false;
        }
        return true;
    }
    X take() {
        X made;
        elements.for_each([&](Item& item) { made.emplace(item.key.take(), item.value.take()); });
        return made;
    }
};

template <class Binder, class X, class K, class E>
    requires is_complete<E>
struct MapContents<Binder, X, K, E> {
    Ref held;
    X made;
    Elements<ElementOf<Binder, K>> keys;
    CompleteElements<Binder, E> elements;  // ends first: it may end what an element of `made` has

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        keys.clear();
        made.clear();
        if (const Loaded read = hold_items(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        Places<Binder, E> places(how);
        for (Py_ssize_t i = 0; i < PyList_Size(held.get()); ++i) {
            PyObject* item = list_item(held.get(), i);
            PyObject* name = tuple_item(item, 0);
            auto& key = keys.add();
            if (!key.load(name, how)) return false;
            E& value = made.try_emplace(key.take()).first->second;
            const auto* of_value = places.of(name);
            if (of_value == nullptr) return Binder::raise();
            if (!elements.load(tuple_item(item, 1), value, *of_value, i)) return false;
        }
        return true;
    }
    X take() {
        elements.commit();
        return std::move(made);
    }
};

template <class Binder, class E>
struct OptionalContents {
    std::optional<ElementOf<Binder, E>> element;

    bool load(PyObject* object, const typename Binder::How& how) {
        element.reset();
        return object == Py_None || element.emplace().load(object, how);
    }
    std::optional<E> take() {
        std::optional<E> made;
        if (element) made.emplace(element->take());
        return made;
    }
};

/// The first alternative that takes the object without a conversion, else the first that takes it at all.
template <class Binder, class... E>
struct VariantContents {
    std::variant<std::monostate, ElementOf<Binder, E>...> chosen;

    bool load(PyObject* object, const typename Binder::How& how) {
        const auto indices = std::index_sequence_for<E...>{};
        const bool taken =
            choose(object, how.without_conversions(), indices) || (how.converts() && choose(object, how, indices));
        if (!taken) chosen.template emplace<0>();
        return taken;
    }
    std::variant<E...> take() { return make(); }

private:
    template <std::size_t... i>
    bool choose(PyObject* object, const typename Binder::How& how, std::index_sequence<i...>) {
        return (chosen.template emplace<i + 1>().load(object, how) || ...);
    }
    template <std::size_t i = 0>
    std::variant<E...> make() {
        if constexpr (i + 1 < sizeof...(E))
            if (chosen.index() != i + 1) return make<i + 1>();
        return std::variant<E...>(std::in_place_index<i>, std::get<i + 1>(chosen).take());
    }
};

template <class Binder, class E, class A>
struct Contents<Binder, std::vector<E, A>> : SequenceContents<Binder, std::vector<E, A>, E> {};
template <class Binder, class E, class A>
struct Contents<Binder, std::list<E, A>> : SequenceContents<Binder, std::list<E, A>, E> {};
template <class Binder, class E, class A>
struct Contents<Binder, std::deque<E, A>> : SequenceContents<Binder, std::deque<E, A>, E> {};
template <class Binder, class K, class E, class... R>
struct Contents<Binder, std::map<K, E, R...>> : MapContents<Binder, std::map<K, E, R...>, K, E> {};
template <class Binder, class K, class E, class... R>
struct Contents<Binder, std::unordered_map<K, E, R...>> : MapContents<Binder, std::unordered_map<K, E, R...>, K, E> {};
template <class Binder, class E>
struct Contents<Binder, std::optional<E>> : OptionalContents<Binder, E> {};
template <class Binder, class... E>
struct Contents<Binder, std::variant<E...>> : VariantContents<Binder, E...> {};
template <class Binder, class... E>
struct Contents<Binder, std::tuple<E...>> : TupleContents<Binder, std::tuple<E...>, E...> {};
template <class Binder, class A, class B>
struct Contents<Binder, std::pair<A, B>> : TupleContents<Binder, std::pair<A, B>, A, B> {};

/// An array is read as a tuple of so many of one type.
template <class Binder, class X, class E, class Indices>
struct ArrayContents;
template <class E, std::size_t>
using Repeated = E;
template <class Binder, class X, class E, std::size_t... i>
struct ArrayContents<Binder, X, E, std::index_sequence<i...>> : TupleContents<Binder, X, Repeated<E, i>...> {};
template <class Binder, class E, std::size_t n>
struct Contents<Binder, std::array<E, n>> : ArrayContents<Binder, std::array<E, n>, E, std::make_index_sequence<n>> {};

/// A container as an argument: made of its elements when the function asks for it, which is when each of them is taken.
template <class Binder, class X>
struct ContainerLoader {
    Contents<Binder, X> contents;
    std::optional<X> value;

    bool load(PyObject* object, const typename Binder::How& how) {
        value.reset();
        return contents.load(object, how);
    }
    X& get() {
        if (!value) value.emplace(contents.take());
        return *value;
    }
};

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_CONTAINERS)
#endif
