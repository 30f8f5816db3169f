// One element of a container that is an argument: its name in errors, its loader, and where many of them are kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/container_results.h>  // Python.h must come before any standard header

#include <charconv>
#include <cstring>
#include <new>

#include <isthmus/python/distinct.h>

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

/// The name of an argument, with the place of an element behind it: "batch', element 1". Without a name the place
/// alone.
class ElementName {
public:
    explicit ElementName(const char* argument) noexcept {
        if (argument == nullptr) argument = "";
        const std::string_view said(argument);
        add(said);
        add(said.find(element_mark) == said.npos ? element_mark : element_mark.substr(1));  // of an element of another
        start_ = size_;
    }
    const char* of(Py_ssize_t place) noexcept {
        *std::to_chars(text_ + start_, text_ + sizeof text_ - 1, place).ptr = '\0';
        return text_;
    }
    /// Of a mapping: the key. NULL if an interrupt or a lack of memory is set.
    ISTHMUS_COLD const char* of(PyObject* key) noexcept {
        size_ = start_;
        const Ref shown(PyObject_Repr(key));
        const char* text = shown ? PyUnicode_AsUTF8AndSize(shown.get(), nullptr) : nullptr;
        if (text == nullptr) {
            if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
            PyErr_Clear();
        }
        add(text != nullptr ? text : "?");
        return text_;
    }

private:
    void add(std::string_view more) noexcept {
        const std::size_t room = sizeof text_ - 24 - size_;  // 24: of a number
        const std::size_t added = more.size() < room ? more.size() : room;
        std::memcpy(text_ + size_, more.data(), added);
        size_ += added;
        text_[size_] = '\0';
    }
    char text_[160];
    std::size_t size_ = 0, start_ = 0;
};

template <class Binder, class X>
struct ContainerLoader;

/// The name that elements have in their type; NULL if they have none.
template <class X>
inline constexpr const char* name_within = nullptr;
template <class V, Literal... names>
inline constexpr const char* name_within<Argument<V, names...>> = Argument<V, names...>::argument_name;
template <template <class...> class C, class E, class... R>
    requires std_container<C<E, R...>>
inline constexpr const char* name_within<C<E, R...>> = name_within<E>;

/// How each element is read: as the container, with its place in the name.
template <class Binder, class E>
class Places {
    using How = typename Binder::How;

public:
    explicit Places(const How& how) noexcept : how_(how), name_(how.argument) {
        named_ = how.argument != nullptr;
        if (!named_ && name_within<E> != nullptr) {
            name_ = ElementName(name_within<E>);
            named_ = true;
        }
    }
    const How& of(Py_ssize_t place) noexcept {
        if (named_) how_.argument = name_.of(place);
        return how_;
    }
    /// Of a mapping: NULL if showing the key raised what no error may hide.
    const How* of(PyObject* key) noexcept {
        if (named_ && (how_.argument = name_.of(key)) == nullptr) return nullptr;
        return &how_;
    }

private:
    How how_;
    ElementName name_;
    bool named_;
};

template <class X>
inline constexpr bool is_named = false;
template <class V, Literal... names>
inline constexpr bool is_named<Argument<V, names...>> = Argument<V, names...>::raises;

/// One element: as the binder's caster has it, but for containers, and for what raises with its name.
template <class Binder, class E>
struct ElementOf : Binder::template Element<E> {
    ElementOf() noexcept {}  // NOLINT(modernize-use-equals-default): it would write zeros first
};
template <class Binder, class E>
    requires(std_container<E> && holds_view<E, Borrowed, Tensor>)
struct ElementOf<Binder, E> {
    ContainerLoader<Binder, E> loader;

    ElementOf() noexcept {}  // NOLINT(modernize-use-equals-default): as above
    bool load(PyObject* object, const typename Binder::How& how) {
        if (loader.load(object, how)) return true;
        if constexpr (requires { Binder::template refuse<E>(object, how); }) Binder::template refuse<E>(object, how);
        return false;
    }
    E take() { return std::move(loader.get()); }
};
template <class Binder, class E>
    requires is_named<E>
struct ElementOf<Binder, E> {
    E value;
    ArgumentLoader<E> loader;

    ElementOf() noexcept {}  // NOLINT(modernize-use-equals-default): as above
    bool load(PyObject* object, const typename Binder::How& how) {
        return Binder::load_named(loader, object, value, how);
    }
    E take() {
        loader.commit_or_throw();
        return std::move(value);
    }
};

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
template <class V>
inline constexpr bool is_complete<Owned<V>> = true;
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
/// Commits the loader of an element, whose place the error tells.
template <class Loader>
void commit_element(Loader& loader, const char* function, const char* argument, Py_ssize_t place) {
    if constexpr (requires { loader.loader; })
        commit_element(loader.loader, function, argument, place);
    else
        loader.commit_or_throw(function, ElementName(argument).of(place));
}

}  // namespace detail

ISTHMUS_END
