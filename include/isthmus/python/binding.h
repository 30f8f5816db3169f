// What binders need: Argument, Reply, As, and how one argument is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <optional>

#include <isthmus/core/view/match.h>
#include <isthmus/core/view/sizes.h>
#include <isthmus/python/framework/facts.h>

ISTHMUS_BEGIN

/// A result for the caller: `tensor` in the framework of the object `like`, which is an argument of the call and lives as long.
struct Reply {
    Tensor tensor;
    PyObject* like = nullptr;
};

/// A result in one framework, whatever the caller's: As<Framework::torch>{tensor}.
template <Framework framework>
struct As {
    Tensor tensor;
    As() noexcept = default;
    As(Tensor tensor) noexcept : tensor(std::move(tensor)) {}
};

/// A view as an argument, which also knows the Python object it came from: `return x.reply(result)` answers in the caller's own
/// framework. With a name, Argument<V, "image">, or with the function's too, Argument<V, "image", "blur">, a mismatch raises
/// the error that says so, at once; without one, the next overload is tried. Valid for the length of the call.
template <class V, detail::Literal name = "", detail::Literal function = "">
class Argument {
public:
    static_assert(detail::is_view<V>, "isthmus: an Argument is made of a View");
    static constexpr bool raises = !name.view().empty();
    static constexpr const char* argument_name = raises ? name.text : nullptr;
    static constexpr const char* function_name = function.view().empty() ? nullptr : function.text;
    Argument() noexcept = default;
    Argument(const V& view, PyObject* object) noexcept : view_(view), object_(object) {}

    const V& operator*() const noexcept { return view_; }
    const V* operator->() const noexcept { return &view_; }
    operator const V&() const noexcept { return view_; }
    /// Borrowed from the caller.
    PyObject* object() const noexcept { return object_; }
    Reply reply(Tensor tensor) const noexcept { return {std::move(tensor), object_}; }

private:
    V view_;
    PyObject* object_ = nullptr;
};

namespace detail {

/// Told in a moment, so that trying an overload with a number does not ask every protocol.
inline bool is_no_tensor(PyObject* object) noexcept {
    const PyTypeObject* type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
}

/// Where an argument is borrowed for the length of a call. One function serves the views of all types: what a type wants is its
/// Requirement.
class BorrowSlot {
public:
    BorrowSlot() noexcept {}
    ~BorrowSlot() { clear(); }
    BorrowSlot(const BorrowSlot&) = delete;
    BorrowSlot& operator=(const BorrowSlot&) = delete;

    /// False when the object is no such tensor, with no word about it.
    bool try_load(PyObject* object, const Requirement& r) noexcept;
    /// The same with words. `match` knows the sizes that earlier arguments of the call have named.
    Result<void> load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                      Match* match) noexcept;
    /// After one of them has said yes.
    const DLTensor& descriptor() const noexcept { return result_->descriptor(); }

private:
    bool borrow(PyObject* object, const Requirement& r, const char* argument) noexcept;
    void clear() noexcept {
        if (made_) result_.~Result();
        made_ = false;
    }

    union {
        Result<Borrowed> result_;
    };
    bool made_ = false;
};

#if ISTHMUS_DEFINE
ISTHMUS_API bool BorrowSlot::borrow(PyObject* object, const Requirement& r, const char* argument) noexcept {
    ImportOptions options;
    options.require_writable = r.writable;
    options.argument = argument;
    clear();
    ::new (&result_) Result<Borrowed>(borrow_py(object, options));
    made_ = true;
    return result_.has_value();
}
ISTHMUS_API bool BorrowSlot::try_load(PyObject* object, const Requirement& r) noexcept {
    if (is_no_tensor(object) || !borrow(object, r, nullptr) || !meets(descriptor(), result_->flags(), r)) return false;
    SizeNames names;
    return r.size_count < 0 || has_sizes(descriptor(), r.sizes, names, nullptr);
}
ISTHMUS_API Result<void> BorrowSlot::load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                                          Match* match) noexcept {
    if (!borrow(object, r, argument))
        return function != nullptr ? result_.error().prefixed(call_prefix(function, nullptr)) : Error(result_.error());
    Match own(function);
    return (match != nullptr ? *match : own).check(argument, descriptor(), result_->flags(), r);
}
#endif

/// An argument in the making: what was borrowed, and the view of it. Lives as long as the call.
template <class V>
struct ViewSlot {
    BorrowSlot borrowed;
    V view;

    bool try_load(PyObject* object) noexcept {
        if (!borrowed.try_load(object, V::requirement)) return false;
        view = view_of<V>(borrowed.descriptor());
        return true;
    }
    Result<void> load(PyObject* object, const char* function, const char* argument, Match* match) noexcept {
        auto loaded = borrowed.load(object, V::requirement, function, argument, match);
        if (ISTHMUS_LIKELY(loaded.has_value())) view = view_of<V>(borrowed.descriptor());
        return loaded;
    }
};

/// A result as a new reference; NULL with the exception set.
inline PyObject* finish(Result<PyObject*> result) noexcept {
    if (result) return *result;
    set_python_error(result.error());
    return nullptr;
}
inline PyObject* to_result(const Tensor& tensor, Framework framework = Framework::tensor) noexcept {
    if (!tensor) Py_RETURN_NONE;
    return finish(to_py(tensor, framework));
}
inline PyObject* to_result(const Reply& reply) noexcept {
    if (!reply.tensor) Py_RETURN_NONE;
    return finish(reply.like != nullptr ? to_py_like(reply.tensor, reply.like) : to_py(reply.tensor));
}

/// What a signature says of a view: a type that checkers accept, and the constraints in words.
template <class V>
struct Annotation {
    static constexpr void spell(Words& words) {
        words.add("typing.Annotated[typing.Any, '");
        if (V::requirement.writable) words.add("writable ");
        words.add(V::words());
        words.add("']");
    }
    static constexpr Spelled<spell> text{};
};

/// What a signature says of a result in one framework.
template <Framework framework>
struct ResultAnnotation {
    static constexpr void spell(Words& words) { words.add(std::string_view(find_framework(framework)->annotation)); }
    static constexpr Spelled<spell> text{};
};

/// What became of one argument.
enum class Loaded : std::uint8_t {
    yes,
    no,      ///< it is something else: the next overload is to be tried
    raised,  ///< the exception is set
};

/// How an argument is read, the same for every binder: View, optional<View>, Argument, Borrowed, Tensor. `Value` is what the
/// bound function gets.
template <class X>
struct Incoming;

/// Borrowed for the length of the call. A mismatch lets the next overload be tried.
template <class T, int N, class... C>
struct Incoming<View<T, N, C...>> {
    using Value = View<T, N, C...>;
    ViewSlot<Value> slot;
    Loaded load(PyObject* object, Value& value) noexcept {
        if (!slot.try_load(object)) return Loaded::no;
        value = slot.view;
        return Loaded::yes;
    }
};

/// None is no view. (The casters of std::optional would let go of what was borrowed before the call.)
template <class T, int N, class... C>
struct Incoming<std::optional<View<T, N, C...>>> {
    using Value = std::optional<View<T, N, C...>>;
    ViewSlot<View<T, N, C...>> slot;
    Loaded load(PyObject* object, Value& value) noexcept {
        value.reset();
        if (object == Py_None) return Loaded::yes;
        if (!slot.try_load(object)) return Loaded::no;
        value = slot.view;
        return Loaded::yes;
    }
};

/// As a View; with a name, a mismatch raises.
template <class V, Literal... names>
struct Incoming<Argument<V, names...>> {
    using Value = Argument<V, names...>;
    ViewSlot<V> slot;
    Loaded load(PyObject* object, Value& value) noexcept {
        if constexpr (Value::raises) {
            const auto loaded = slot.load(object, Value::function_name, Value::argument_name, nullptr);
            if (!loaded) {
                set_python_error(loaded.error());
                return Loaded::raised;
            }
        } else if (!slot.try_load(object)) {
            return Loaded::no;
        }
        value = Value(slot.view, object);
        return Loaded::yes;
    }
};

template <class X, Result<X> (*import)(PyObject*, const ImportOptions&) noexcept>
struct IncomingHandle {
    using Value = X;
    Loaded load(PyObject* object, Value& value) noexcept {
        if (is_no_tensor(object)) return Loaded::no;
        Result<X> result = import(object, default_import);
        if (!result) return Loaded::no;
        value = std::move(*result);
        return Loaded::yes;
    }
};
template <>
struct Incoming<Borrowed> : IncomingHandle<Borrowed, borrow_py> {};
/// An owning handle: may be stored.
template <>
struct Incoming<Tensor> : IncomingHandle<Tensor, from_py> {};

}  // namespace detail

ISTHMUS_END
