// Containers of views as arguments: every element's object, and what was borrowed from it, is held for the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/distinct.h>  // Python.h must come before any standard header

#include <array>
#include <deque>
#include <list>
#include <map>
#include <new>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

ISTHMUS_BEGIN

namespace detail {

/// Reads the elements of a sequence that is not a text, into a tuple that holds them; `count` is how many there must
/// be, or -1.
Loaded hold_elements(PyObject* object, Ref& held, Py_ssize_t count = -1) noexcept;
/// Reads the items of a mapping, into a list of pairs that holds them.
Loaded hold_items(PyObject* object, Ref& held) noexcept;

// The limited API has the functions, and not the macros, which check nothing.
#if defined(Py_LIMITED_API)
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept { return PyTuple_GetItem(tuple, i); }
inline PyObject* list_item(PyObject* list, Py_ssize_t i) noexcept { return PyList_GetItem(list, i); }
#else
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept { return PyTuple_GET_ITEM(tuple, i); }
inline PyObject* list_item(PyObject* list, Py_ssize_t i) noexcept { return PyList_GET_ITEM(list, i); }
#endif

// One Contents per shape of container: load() reads the elements and keeps what reads them, take() makes the container
// of them. A Binder has How, its state while arguments are read; Element<E>, its own caster of one element, which stays
// where it is made; load(), which reads what has an ArgumentLoader; and raise(), which throws the Python exception that
// is set.

template <class Binder, class X>
struct Contents;

/// Elements that do not move. A borrow has room for 64 dimensions: a std::vector would write all of that,
/// or allocate for each. Of these chunks only what is used is touched, and malloc keeps them at hand.
template <class T>
class Elements {
    static constexpr std::size_t chunk_bytes = std::size_t{1} << 12;
    static constexpr std::size_t room = sizeof(T) < chunk_bytes ? chunk_bytes / sizeof(T) : 1;
    struct Chunk {
        Chunk* next = nullptr;
        std::size_t count = 0;
        union {
            T elements[room];
        };
        Chunk() noexcept {}
        ~Chunk() {
            while (count > 0) elements[--count].~T();
        }
    };

public:
    Elements() = default;
    ~Elements() { clear(); }
    /// A binder that asks whether its casters can be copied is to hear of the mistake that led it there.
    Elements(const Elements&) {
        static_assert(
            sizeof(T) == 0,
            "isthmus: what is borrowed would end before it is used; take the container as an argument of the function");
    }
    Elements& operator=(const Elements&) = delete;

    T& add() {
        if (last_ == nullptr || last_->count == room) {
            auto* fresh = new Chunk;
            (last_ == nullptr ? first_ : last_->next) = fresh;
            last_ = fresh;
        }
        T* made = ::new (static_cast<void*>(last_->elements + last_->count)) T;
        ++last_->count;
        return *made;
    }
    template <class F>
    void for_each(F&& f) {
        for (Chunk* chunk = first_; chunk != nullptr; chunk = chunk->next)
            for (std::size_t i = 0; i < chunk->count; ++i) f(chunk->elements[i]);
    }
    void clear() noexcept {
        while (Chunk* chunk = first_) {
            first_ = chunk->next;
            delete chunk;
        }
        last_ = nullptr;
    }

private:
    Chunk *first_ = nullptr, *last_ = nullptr;
};

/// Whether a value is complete in itself once it was loaded, so that its borrow has to stay only if it holds something:
/// a view of so many dimensions has its own sizes, and the sequence that is held keeps an array.
template <class E>
inline constexpr bool is_complete = false;
template <class T, int N, class... C>
inline constexpr bool is_complete<View<T, N, C...>> = N != dynamic_rank;
template <>
inline constexpr bool is_complete<Borrowed> = true;
template <class V, Literal... names>
inline constexpr bool is_complete<Argument<V, names...>> = is_complete<V>;

template <class Loader>
bool is_done(const Loader& loader) noexcept {
    if constexpr (requires { loader.slot; })
        return loader.slot.is_done();
    else if constexpr (requires { loader.loader; })
        return is_done(loader.loader);
    else
        return loader.is_done();
}
/// Reads elements of such a type one after the other: the same loader serves all that leave nothing to hold.
template <class Binder, class E>
class CompleteElements {
public:
    /// `value` stays where it is until commit().
    bool load(PyObject* object, E& value, const typename Binder::How& how) {
        static_assert(!is_distinct<E>, ISTHMUS_NOT_COMPARED);
        if (free_ == nullptr) free_ = &loaders_.add();
        if (!Binder::load(*free_, object, value, how)) return false;
        if (!is_done(*free_)) free_ = nullptr;
        return true;
    }
    void commit() {
        loaders_.for_each([&](ArgumentLoader<E>& loader) {
            if (&loader != free_) loader.commit_or_throw();
        });
    }
    void clear() noexcept {
        loaders_.clear();
        free_ = nullptr;
    }

private:
    Elements<ArgumentLoader<E>> loaders_;
    ArgumentLoader<E>* free_ = nullptr;
};

/// Any number of elements, all of one type.
template <class Binder, class X, class E>
struct SequenceContents {
    Ref held;
    Elements<typename Binder::template Element<E>> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        if (const Loaded read = hold_elements(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        for (Py_ssize_t i = 0; i < PyTuple_Size(held.get()); ++i)
            if (!elements.add().load(tuple_item(held.get(), i), how)) return false;
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
        for (Py_ssize_t i = 0; i < size; ++i)
            if (!elements.load(tuple_item(held.get(), i), made.emplace_back(), how)) return false;
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
    std::tuple<typename Binder::template Element<E>...> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        if (const Loaded read = hold_elements(object, held, sizeof...(E)); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        Py_ssize_t at = 0;
        return std::apply([&](auto&... element) { return (element.load(tuple_item(held.get(), at++), how) && ...); },
                          elements);
    }
    X take() {
        return std::apply([](auto&... element) { return X{element.take()...}; }, elements);
    }
};

template <class Binder, class X, class K, class E>
struct MapContents {
    struct Item {
        typename Binder::template Element<K> key;
        typename Binder::template Element<E> value;
    };
    Ref held;
    Elements<Item> elements;

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        if (const Loaded read = hold_items(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        for (Py_ssize_t i = 0; i < PyList_Size(held.get()); ++i) {
            PyObject* item = list_item(held.get(), i);
            auto& [key, value] = elements.add();
            if (!key.load(tuple_item(item, 0), how) || !value.load(tuple_item(item, 1), how)) return false;
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
    Elements<typename Binder::template Element<K>> keys;
    CompleteElements<Binder, E> elements;  // ends first: it may end what an element of `made` has

    bool load(PyObject* object, const typename Binder::How& how) {
        elements.clear();
        keys.clear();
        made.clear();
        if (const Loaded read = hold_items(object, held); read != Loaded::yes)
            return read == Loaded::raised && Binder::raise();
        for (Py_ssize_t i = 0; i < PyList_Size(held.get()); ++i) {
            PyObject* item = list_item(held.get(), i);
            auto& key = keys.add();
            if (!key.load(tuple_item(item, 0), how)) return false;
            E& value = made.try_emplace(key.take()).first->second;
            if (!elements.load(tuple_item(item, 1), value, how)) return false;
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
    std::optional<typename Binder::template Element<E>> element;

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
    std::variant<std::monostate, typename Binder::template Element<E>...> chosen;

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
