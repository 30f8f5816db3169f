// How a binder's caster reads one argument: View, std::optional<View>, Argument, Borrowed, Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// Whether a value of this type shows memory that ends with what was borrowed for it.
template <class X>
inline constexpr bool borrows = holds_view<X, Borrowed>;

/// How an argument is read, the same for every binder: View, optional<View>, Argument, Borrowed, Tensor. `Value` is what the
/// bound function gets. load() reads it, `last` saying that no other overload will be tried in its place; announce() comes when
/// all arguments were read, before the value is handed over.
template <class X>
struct Incoming;

/// Borrowed for the length of the call. A mismatch lets the next overload be tried.
template <class T, int N, class... C>
struct Incoming<View<T, N, C...>> {
    using Value = View<T, N, C...>;
    ViewSlot<Value> slot;
    Loaded load(PyObject* object, Value& value, bool last) noexcept {
        const Loaded loaded = slot.try_load(object, last);
        if (loaded == Loaded::yes) value = slot.view;
        return loaded;
    }
    /// The same, where a mismatch raises.
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument) noexcept {
        const auto loaded = slot.load(object, function, argument, nullptr);
        if (!loaded) return raise_in_call(loaded.error());
        value = slot.view;
        return Loaded::yes;
    }
    Result<void> announce(const char* function = nullptr, const char* argument = nullptr) noexcept {
        return slot.announce(function, argument);
    }
};

/// An argument that is announced by the function that takes it: agreeing() asks the binders for this, since it has yet to
/// compare the arguments. One that is made from a value directly has nothing to announce.
template <class X>
struct Unannounced {
    X value{};
    Incoming<X>* incoming = nullptr;  ///< in the binder's caster, which outlives the call
    Unannounced() noexcept = default;
    Unannounced(X made) : value(std::move(made)) {}
    Result<void> announce() noexcept { return incoming != nullptr ? incoming->announce() : Result<void>(); }
};
template <class X>
struct Incoming<Unannounced<X>> {
    using Value = Unannounced<X>;
    Incoming<X> incoming;
    Loaded load(PyObject* object, Value& value, bool last) noexcept {
        value.incoming = &incoming;
        return incoming.load(object, value.value, last);
    }
    Result<void> announce() noexcept { return {}; }
};

/// None is no view. (The casters of std::optional would let go of what was borrowed before the call.)
template <class X>
struct IncomingOptional {
    using Value = std::optional<X>;
    Incoming<X> incoming;
    Loaded load(PyObject* object, Value& value, bool last) noexcept {
        value.reset();
        if (object == Py_None) return Loaded::yes;
        const Loaded loaded = incoming.load(object, value.emplace(), last);
        if (loaded != Loaded::yes) value.reset();
        return loaded;
    }
    Result<void> announce() noexcept { return incoming.announce(); }
};
template <class T, int N, class... C>
struct Incoming<std::optional<View<T, N, C...>>> : IncomingOptional<View<T, N, C...>> {};
template <class V, Literal... names>
struct Incoming<std::optional<Argument<V, names...>>> : IncomingOptional<Argument<V, names...>> {};
template <class V>
struct Incoming<std::optional<Unannounced<V>>> : IncomingOptional<Unannounced<V>> {};

template <class X, Result<X> (*import)(PyObject*, const ImportOptions&) noexcept>
struct IncomingHandle {
    using Value = X;
    IncomingHandle() noexcept = default;
    ~IncomingHandle() { clear(); }
    IncomingHandle(const IncomingHandle&) = delete;
    IncomingHandle& operator=(const IncomingHandle&) = delete;

    Loaded load(PyObject* object, Value& value, bool last) noexcept {
        if (is_no_tensor(object)) return Loaded::no;
        Result<void> result = take(object, value, default_import);
        return result ? Loaded::yes : pass_on(result.error(), last);
    }
    /// The same, where a mismatch raises.
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument) noexcept {
        ImportOptions options;
        options.argument = argument;
        Result<void> result = take(object, value, options);
        return result ? Loaded::yes : raise_in_call(argument_error(result.error(), function));
    }
    Result<void> announce(const char* = nullptr, const char* = nullptr) noexcept {
        capsule = nullptr;
        return {};
    }

private:
    Result<void> take(PyObject* object, Value& value, const ImportOptions& options) noexcept {
        clear();
        Result<X> result = import(object, options);
        if (!result) return std::move(result).error();
        value = std::move(*result);
        if (PyCapsule_CheckExact(object)) {
            capsule = object;
            taken = &value;
        }
        return {};
    }
    void clear() noexcept {
        if (capsule != nullptr) give_back(std::exchange(capsule, nullptr), *taken);
    }

    PyObject* capsule = nullptr;  // to be whole again unless announce() comes; borrowed from the caller
    Value* taken = nullptr;       // in the binder's caster, which ends after this
};
template <>
struct Incoming<Borrowed> : IncomingHandle<Borrowed, borrow_py> {};
/// An owning handle: may be stored.
template <>
struct Incoming<Tensor> : IncomingHandle<Tensor, from_py> {};

/// As what it is made of; with a name, a mismatch raises.
template <class X, Literal... names>
struct Incoming<Argument<X, names...>> {
    using Value = Argument<X, names...>;
    Incoming<X> incoming;
    Loaded load(PyObject* object, Value& value, [[maybe_unused]] bool last) noexcept {
        value.object_ = object;
        if constexpr (Value::raises)
            return incoming.load(object, value.view_, Value::function_name, Value::argument_name);
        else
            return incoming.load(object, value.view_, last);
    }
    Result<void> announce() noexcept { return incoming.announce(Value::function_name, Value::argument_name); }
};

}  // namespace detail

ISTHMUS_END
