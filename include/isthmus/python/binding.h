// For binders: Argument, fields; how an argument is loaded for a call, and a tensor returned as its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <optional>

#include <isthmus/core/view/sizes.h>
#include <isthmus/python/reply.h>
#include <isthmus/python/tensor_slot.h>

ISTHMUS_BEGIN

template <class V>
class Owned;  // of isthmus/owned.h

/// The names of all members of a struct, an aggregate of at most 16; <isthmus/fields.h> reads and returns such structs.
///
///     struct Csr {
///         View<const int, 1, sizes<"rows+1">> indptr;
///         View<const int, 1, sizes<"nnz">> indices;
///         View<const double, 1, sizes<"nnz">> data;
///         using fields = isthmus::fields<"indptr", "indices", "data">;
///     };
template <detail::Literal... name>
struct fields {
    static_assert(sizeof...(name) > 0 && sizeof...(name) <= 16, "isthmus: a struct has from 1 to 16 fields");
    static constexpr int count = sizeof...(name);           ///< how many fields
    static constexpr const char* names[] = {name.text...};  ///< their names in Python
};

namespace detail {
template <class X>
inline constexpr bool is_fields = false;
template <Literal... name>
inline constexpr bool is_fields<fields<name...>> = true;

template <class S>
concept HasFields = requires { typename S::fields; } && is_fields<typename S::fields>;
}  // namespace detail

/// A struct for the caller: in the form of the object `like`, which is an argument of the call and outlives it; a dict
/// if that is NULL. Tensors are in the framework of the field of that name, numbers and sizes as Python has them.
template <detail::HasFields S>
struct FieldsReply {
    static constexpr char isthmus_annotation[] = "typing.Any";  ///< in signatures
    S fields;                                                   ///< the struct
    PyObject* like = nullptr;                                   ///< borrowed; NULL for a dict
};

namespace detail {
template <class X>
struct ArgumentLoader;

/// Any tensor, unchecked: for the length of the call, or owned.
template <class X>
inline constexpr bool is_handle = std::is_same_v<X, Borrowed> || std::is_same_v<X, Tensor>;
template <class X>
inline constexpr bool is_owned = false;
template <class V>
inline constexpr bool is_owned<Owned<V>> = true;
}  // namespace detail

/// A View, an Owned, a Borrowed or a Tensor as an argument, which also knows the Python object it came from: `return
/// x.reply(result)` answers in the caller's own framework. With a name, Argument<V, "image">, or with the function's
/// too, Argument<V, "image", "blur">, a mismatch raises the error that says so, at once; without one, the next overload
/// is tried. Valid for the length of the call; what an
/// Argument<Tensor> or an Argument<Owned<V>> holds may be kept.
template <class V, detail::Literal name = "", detail::Literal function = "">
class Argument {
public:
    static_assert(detail::is_view<V> || detail::is_handle<V> || detail::is_owned<V> || detail::HasFields<V>,
                  "isthmus: an Argument is made of a View, a Borrowed, a Tensor, an Owned, or a struct with fields "
                  "(isthmus/fields.h)");
    /// Whether a mismatch raises at once: it does if there is a name.
    static constexpr bool raises = !name.view().empty();
    /// The names in errors; NULL if none was given.
    static constexpr const char* argument_name = raises ? name.text : nullptr;
    static constexpr const char* function_name = function.view().empty() ? nullptr : function.text;
    Argument() noexcept {}  // NOLINT(modernize-use-equals-default): it would write zeros
    /// Made by a caster: the view, and its object, borrowed.
    Argument(V view, PyObject* object) noexcept : view_(std::move(view)), object_(object) {}

    /// The view itself; `x->data()`, and `x` as a `const V&`, are the same.
    const V& operator*() const noexcept { return view_; }
    std::conditional_t<detail::is_owned<V>, const V&, const V*> operator->() const noexcept {
        if constexpr (detail::is_owned<V>)
            return view_;
        else
            return &view_;
    }
    /// As operator*.
    operator const V&() const noexcept { return view_; }
    /// Borrowed from the caller.
    PyObject* object() const noexcept { return object_; }
    /// `tensor` for the caller, in the framework of this argument.
    Reply reply(Tensor tensor) const noexcept { return {std::move(tensor), object_}; }
    /// A result in the framework of this argument and on its device, with elements of `W`, a view, that are yet to be
    /// written; the function returns it as it is. Throws Error: no memory, sizes that `W` does not allow.
    template <class W>
    Made<W> make(const Shape& shape) const {
        return Made<W>(reply(empty_like(object_, shape, dtype_of<detail::element_of<W>>(), (*this)->device())));
    }
    /// A struct in the form of this argument (isthmus/fields.h).
    template <detail::HasFields S>
    FieldsReply<S> reply(S fields) const {
        return {std::move(fields), object_};
    }

private:
    template <class>
    friend struct detail::ArgumentLoader;

    V view_;
    PyObject* object_ = nullptr;
};

/// New memory for a result, not zeroed, in the argument's framework (empty_like() of api.h), of its shape and dtype if
/// nothing else is said: `return x.reply(empty_like(x))`. Throws Error.
template <class V, detail::Literal... names>
Tensor empty_like(const Argument<V, names...>& argument, const Shape& shape, DType dtype) {
    return empty_like(argument.object(), shape, dtype, argument->device());
}
template <class V, detail::Literal... names>
Tensor empty_like(const Argument<V, names...>& argument, const Shape& shape) {
    return empty_like(argument, shape, argument->dtype());
}
template <class V, detail::Literal... names>
Tensor empty_like(const Argument<V, names...>& argument) {
    return empty_like(argument, argument->shape(), argument->dtype());
}

namespace detail {

/// Whether a type is a view or one of the others, or a container of them: std::optional, std::vector, std::map,
/// std::variant, ….
template <class X, class... Others>
inline constexpr bool holds_view = is_view<X> || HasFields<X> || (std::is_same_v<X, Others> || ...);
template <class V, Literal... names, class... Others>
inline constexpr bool holds_view<Argument<V, names...>, Others...> = true;
template <class V, class... Others>
inline constexpr bool holds_view<Made<V>, Others...> = false;  // it owns its memory
template <class V, class... Others>
inline constexpr bool holds_view<Owned<V>, Others...> = (std::is_same_v<Tensor, Others> || ...);  // as a Tensor does
template <template <class...> class C, class... E, class... Others>
    requires(!HasFields<C<E...>>)
inline constexpr bool holds_view<C<E...>, Others...> = (holds_view<std::remove_cvref_t<E>, Others...> || ...);
template <template <class, std::size_t> class C, class E, std::size_t n, class... Others>  // std::array
inline constexpr bool holds_view<C<E, n>, Others...> = holds_view<E, Others...>;

/// Whether a value of this type shows memory that ends with the borrow.
template <class X>
inline constexpr bool borrows = holds_view<X, Borrowed>;

/// Whether an exception translator may be registered with a binder now.
inline bool may_translate() noexcept { return Py_IsInitialized() != 0 && have_gil(); }
/// Calls `function` unless that was done before; a thread that comes second waits for the first.
void run_once(Atomic<bool>& done, void (*function)());

/// How an argument is loaded: by Arguments, by the casters of every binder, as a field of a struct, and to explain a
/// call that no overload takes. The value is the caller's, and outlives the loader.
///
/// - try_load() lets the next overload be tried if the object does not fit; `last` says that there is none.
/// - load() raises instead. `function` and `argument` may be NULL, and so may `match`.
/// - commit() comes when every argument was loaded, before the value is used: false with the exception set.
///   commit_or_throw() throws the Error. Without it the loader's end rolls back.
/// - roll_back() ends what was loaded for a call that will not be made.
template <class X>
struct ArgumentLoader {
    static_assert(is_view<X>,
                  "isthmus: an argument is a View, Borrowed, Tensor, Owned, PyObject*, DType, Device, a number, bool, "
                  "string_view, "
                  "string, or optional of these; for containers include <isthmus/python/container_arguments.h>");
};

template <class T, int N, class... C>
struct ArgumentLoader<View<T, N, C...>> {
    using Value = View<T, N, C...>;
    static_assert(!is_for_operators(Value::requirement),
                  "isthmus: a formula or a run in sizes<> is for the parameters of operators");
    BorrowSlot slot;

    Loaded try_load(PyObject* object, Value& value, bool last) noexcept {
        if (ISTHMUS_LIKELY(show_without_borrow(slot, object, value))) return Loaded::yes;
        return show(slot.try_load(object, Value::requirement, last), value);
    }
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, Match* match) noexcept {
        if (ISTHMUS_LIKELY(show_without_borrow(slot, object, value))) return Loaded::yes;
        return show(slot.load(object, Value::requirement, function, argument, match), value);
    }
    bool commit(const char* function, const char* argument) noexcept { return slot.commit(function, argument); }
    void commit_or_throw(const char* function = nullptr, const char* argument = nullptr) {
        slot.commit_or_throw(function, argument);
    }
    void roll_back(PyObject* object, Value&) noexcept { slot.roll_back(object); }
    void note(PyObject* object, const void* call, Value&) noexcept { slot.note(object, call); }

private:
    Loaded show(Loaded loaded, Value& value) const noexcept {
        if (ISTHMUS_LIKELY(loaded == Loaded::yes)) value = view_of<Value>(slot.descriptor());
        return loaded;
    }
};

/// Borrowed for the call, or owned: any tensor, unchecked.
template <class X>
class HandleLoader {
public:
    HandleLoader() noexcept = default;
    ~HandleLoader() {
        if (ISTHMUS_UNLIKELY(taken_ != nullptr)) end();
    }
    HandleLoader(const HandleLoader&) = delete;
    HandleLoader& operator=(const HandleLoader&) = delete;

    Loaded try_load(PyObject* object, X& value, bool last) noexcept;
    Loaded load(PyObject* object, X& value, const char* function, const char* argument, Match* match) noexcept;
    bool commit(const char*, const char*) noexcept {
        capsule_ = nullptr;
        return true;
    }
    void commit_or_throw(const char* = nullptr, const char* = nullptr) noexcept { capsule_ = nullptr; }
    bool is_done() const noexcept { return capsule_ == nullptr; }
    void roll_back(PyObject* object, X& value) noexcept;
    void note(PyObject* object, const void* call, X& value) noexcept {
        taken_ = &value;
        note_like(this, object, call);
    }

private:
    friend struct BackendAccess;
    void end() noexcept;
    Result<void> take(PyObject* object, X& value, const ImportOptions& options) noexcept;

    PyObject* capsule_ = nullptr;  // to be whole again unless commit() comes; borrowed from the caller
    X* taken_ = nullptr;           // of a capsule, or noted
};
#if !defined(ISTHMUS_BACKEND)
extern template class HandleLoader<Borrowed>;
extern template class HandleLoader<Tensor>;
#endif
template <>
struct ArgumentLoader<Borrowed> : HandleLoader<Borrowed> {};
/// May be stored.
template <>
struct ArgumentLoader<Tensor> : HandleLoader<Tensor> {};

template <class Loader, class X>
void note_in(Loader& loader, PyObject* object, const void* call, X& value) noexcept {
    if constexpr (requires { loader.note(object, call, value); }) loader.note(object, call, value);
}

/// None is not a view.
template <class X>
struct ArgumentLoader<std::optional<X>> {
    using Value = std::optional<X>;
    ArgumentLoader<X> loader;

    Loaded try_load(PyObject* object, Value& value, bool last) noexcept {
        value.reset();
        return object == Py_None ? Loaded::yes : keep(loader.try_load(object, value.emplace(), last), value);
    }
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, Match* match) noexcept {
        if (object == Py_None) return value = std::nullopt, Loaded::yes;
        return keep(loader.load(object, value.emplace(), function, argument, match), value);
    }
    bool commit(const char* function, const char* argument) noexcept { return loader.commit(function, argument); }
    void commit_or_throw() { loader.commit_or_throw(); }
    void roll_back(PyObject* object, Value& value) noexcept {
        if (value) loader.roll_back(object, *value);
    }
    void note(PyObject* object, const void* call, Value& value) noexcept { note_in(loader, object, call, *value); }

private:
    static Loaded keep(Loaded loaded, Value& value) noexcept {
        if (ISTHMUS_UNLIKELY(loaded != Loaded::yes)) value.reset();
        return loaded;
    }
};

/// As what it is made of; with a name, a mismatch raises.
template <class X, Literal... names>
struct ArgumentLoader<Argument<X, names...>> {
    using Value = Argument<X, names...>;
    ArgumentLoader<X> loader;

    Loaded try_load(PyObject* object, Value& value, [[maybe_unused]] bool last) noexcept {
        if constexpr (Value::raises) return load(object, value, Value::function_name, Value::argument_name, nullptr);
        value.object_ = object;
        return loader.try_load(object, value.view_, last);
    }
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, Match* match) noexcept {
        value.object_ = object;
        return loader.load(object, value.view_, function, argument, match);
    }
    bool commit(const char* function, const char* argument) noexcept { return loader.commit(function, argument); }
    void commit_or_throw() { loader.commit_or_throw(Value::function_name, Value::argument_name); }
    void roll_back(PyObject* object, Value& value) noexcept { loader.roll_back(object, value.view_); }
    void note(PyObject* object, const void* call, Value& value) noexcept { note_in(loader, object, call, value.view_); }
};

/// A result as a new reference; NULL with the exception set.
PyObject* finish(Result<PyObject*> result) noexcept;
/// As to_result() of a Reply, in one framework.
PyObject* to_result(const Tensor& tensor, Framework framework = Framework::tensor, PyObject* parent = nullptr) noexcept;
/// A result of no stated framework. `like` is the first tensor argument of the call; NULL if it had none.
PyObject* to_default_result(DefaultResult form, const Tensor& tensor, PyObject* like, PyObject* parent) noexcept;
inline PyObject* to_default_result(const Tensor& tensor, PyObject* like, PyObject* parent = nullptr) noexcept {
    return to_default_result(default_result, tensor, like, parent);
}

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_BINDING)
#endif
