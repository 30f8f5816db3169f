// What binders need: Argument, Reply, As, and how one argument is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <array>
#include <optional>

#include <isthmus/core/view/match.h>
#include <isthmus/core/view/sizes.h>
#include <isthmus/python/framework/facts.h>
#include <isthmus/python/runtime/object_owner.h>

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
    As(Tensor result) noexcept : tensor(std::move(result)) {}
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

/// Whether a type is a view or one of the others, or a container of such: std::optional, std::vector, std::map, std::variant,
/// ….
template <class X, class... Others>
inline constexpr bool holds_view = is_view<X> || (std::is_same_v<X, Others> || ...);
template <class V, Literal... names, class... Others>
inline constexpr bool holds_view<Argument<V, names...>, Others...> = true;
template <template <class...> class C, class... E, class... Others>
inline constexpr bool holds_view<C<E...>, Others...> = (holds_view<std::remove_cvref_t<E>, Others...> || ...);
template <class E, std::size_t n, class... Others>
inline constexpr bool holds_view<std::array<E, n>, Others...> = holds_view<E, Others...>;

/// Told in a moment, so that trying an overload with a number does not ask every protocol.
inline bool is_no_tensor(PyObject* object) noexcept {
    const PyTypeObject* type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
}

/// What became of one argument.
enum class Loaded : std::uint8_t {
    yes,
    no,      ///< it is something else: the next overload is to be tried
    raised,  ///< the exception is set
};

/// Where an argument is borrowed for the length of a call. One function serves the views of all types: what a type wants is its
/// Requirement.
class BorrowSlot {
public:
    BorrowSlot() noexcept {}
    ~BorrowSlot() { clear(); }
    BorrowSlot(const BorrowSlot&) = delete;
    BorrowSlot& operator=(const BorrowSlot&) = delete;

    /// An object that is no such tensor is passed on, with no word about it: unless what was met must not be swallowed (an
    /// interrupt), or is the reason why no overload takes it (`last`).
    Loaded try_load(PyObject* object, const Requirement& r, bool last) noexcept;
    /// The same with words. `match` knows the sizes that earlier arguments of the call have named.
    Result<void> load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                      Match* match) noexcept;
    /// After one of them has said yes, where the call is refused for another reason: a capsule is whole again.
    void give_back(PyObject* object) noexcept;
    /// After one of them has said yes.
    const DLTensor& descriptor() const noexcept { return result_->descriptor(); }
    /// To be called when every argument of the call has been found to fit: a write is announced, once, and a capsule is taken.
    /// Until then the call may be refused for another reason, and the capsule is whole again when the slot ends.
    Result<void> announce(const char* function = nullptr, const char* argument = nullptr) noexcept {
        if (ISTHMUS_LIKELY(pending_ == nullptr)) return {};
        return announce_now(function, argument);
    }

private:
    bool borrow(PyObject* object, const Requirement& r, const char* argument) noexcept;
    Result<void> announce_now(const char* function, const char* argument) noexcept;
    void clear() noexcept {
        if (ISTHMUS_UNLIKELY(pending_ != nullptr)) give_back(pending_);
        if (made_) result_.~Result();
        made_ = false;
    }

    union {
        Result<Borrowed> result_;
    };
    bool made_ = false;
    PyObject* pending_ = nullptr;  // the object, where announce() has anything to do; borrowed from the caller
};

/// What a failed import means while overloads are tried.
ISTHMUS_COLD inline Loaded pass_on(const Error& error, bool last) noexcept {
    auto* cause = static_cast<PyObject*>(error.cause());
    const bool interrupted = cause != nullptr && !PyErr_GivenExceptionMatches(cause, PyExc_Exception);
    if (!interrupted && !(last && error.code() == ErrorCode::requires_grad)) return Loaded::no;
    set_python_error(error);
    return Loaded::raised;
}
/// A failed import in the words of the call. Memory that is read-only is an argument that does not fit, as a dtype is.
ISTHMUS_COLD inline Error argument_error(const Error& error, const char* function) {
    const std::string prefix = call_prefix(function, nullptr);
    if (error.code() == ErrorCode::read_only) return Error(error.code(), ErrorKind::value, prefix + error.what());
    return error.prefixed(prefix);
}

#if ISTHMUS_DEFINE
ISTHMUS_API bool BorrowSlot::borrow(PyObject* object, const Requirement& r, const char* argument) noexcept {
    ImportOptions options;
    options.require_writable = r.writable;
    options.announce = false;
    options.allow_grad = r.allow_grad;
    options.refuse_grad = true;
    options.argument = argument;
    clear();
    ::new (&result_) Result<Borrowed>(borrow_py(object, options));
    made_ = true;
    const bool ok = result_.has_value();
    if (ok && ISTHMUS_UNLIKELY((result_->flags() & unannounced_flag) || PyCapsule_CheckExact(object))) pending_ = object;
    return ok;
}
ISTHMUS_API void BorrowSlot::give_back(PyObject* object) noexcept {
    pending_ = nullptr;
    if (made_ && result_.has_value()) isthmus::give_back(object, *result_);
}
ISTHMUS_API Loaded BorrowSlot::try_load(PyObject* object, const Requirement& r, bool last) noexcept {
    if (is_no_tensor(object)) return Loaded::no;
    if (!borrow(object, r, nullptr)) return pass_on(result_.error(), last);
    SizeNames names;
    if (ISTHMUS_LIKELY(meets(descriptor(), result_->flags(), r)) &&
        (r.size_count < 0 || has_sizes(descriptor(), r.sizes, names, nullptr)))
        return Loaded::yes;
    give_back(object);
    return Loaded::no;
}
ISTHMUS_API Result<void> BorrowSlot::announce_now(const char* function, const char* argument) noexcept {
    PyObject* object = std::exchange(pending_, nullptr);
    if (!(result_->flags() & unannounced_flag)) return {};
    return surviving_exit([&]() -> Result<void> {
        // A binder may have released the GIL before it asks for the value (pybind11::call_guard).
        const bool away = !have_gil();
        const PyGILState_STATE state = away ? PyGILState_Ensure() : PyGILState_STATE{};
        Result<void> announced = announce_write(object, argument);
        if (!announced) announced = announced.error().prefixed(call_prefix(function, nullptr));
        if (away) PyGILState_Release(state);
        return announced;
    });
}
ISTHMUS_API Result<void> BorrowSlot::load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                                          Match* match) noexcept {
    if (!borrow(object, r, argument)) return argument_error(result_.error(), function);
    Match own(function);
    auto checked = (match != nullptr ? *match : own).check(argument, descriptor(), result_->flags(), r);
    if (ISTHMUS_UNLIKELY(!checked)) give_back(object);
    return checked;
}
#endif

/// An argument in the making: what was borrowed, and the view of it. Lives as long as the call.
template <class V>
struct ViewSlot {
    BorrowSlot borrowed;
    V view;

    Loaded try_load(PyObject* object, bool last) noexcept {
        const Loaded loaded = borrowed.try_load(object, V::requirement, last);
        if (loaded == Loaded::yes) view = view_of<V>(borrowed.descriptor());
        return loaded;
    }
    Result<void> load(PyObject* object, const char* function, const char* argument, Match* match) noexcept {
        auto loaded = borrowed.load(object, V::requirement, function, argument, match);
        if (ISTHMUS_LIKELY(loaded.has_value())) view = view_of<V>(borrowed.descriptor());
        return loaded;
    }
    Result<void> announce(const char* function = nullptr, const char* argument = nullptr) noexcept {
        return borrowed.announce(function, argument);
    }
};

/// A result as a new reference; NULL with the exception set.
inline PyObject* finish(Result<PyObject*> result) noexcept {
    if (result) return *result;
    set_python_error(result.error());
    return nullptr;
}
/// The tensor for a caller who is to keep `parent` with it (reference_internal): held as well, unless the tensor is known to
/// keep its memory. Empty when memory is out.
ISTHMUS_NOINLINE inline Tensor kept_with(const Tensor& tensor, PyObject* parent) noexcept {
    const bool kept = source_of(tensor.block()) != nullptr || owns_memory(tensor.block());
    return kept ? tensor : Tensor::steal(block_kept_with(tensor.block(), parent));
}
/// `parent` is NULL where the binder knows of none.
inline PyObject* to_result(const Tensor& tensor, Framework framework = Framework::tensor, PyObject* parent = nullptr) noexcept {
    if (!tensor) Py_RETURN_NONE;
    if (ISTHMUS_LIKELY(parent == nullptr)) return finish(to_py(tensor, framework));
    const Tensor kept = kept_with(tensor, parent);
    return kept ? finish(to_py(kept, framework)) : PyErr_NoMemory();
}
inline PyObject* to_result(const Reply& reply, PyObject* parent = nullptr) noexcept {
    if (reply.like == nullptr) return to_result(reply.tensor, Framework::tensor, parent);
    if (!reply.tensor) Py_RETURN_NONE;
    if (ISTHMUS_LIKELY(parent == nullptr)) return finish(to_py_like(reply.tensor, reply.like));
    const Tensor kept = kept_with(reply.tensor, parent);
    return kept ? finish(to_py_like(kept, reply.like)) : PyErr_NoMemory();
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
    static constexpr void spell(Words& words) {
        const char* array = find_framework(framework)->array;
        words.add(std::string_view(array != nullptr ? array : "typing.Any"));
    }
    static constexpr Spelled<spell> text{};
};

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
    Result<void> announce() noexcept { return slot.announce(); }
};

/// An argument that is announced by the function that takes it: what agreeing() asks the binders for, since it has yet to
/// compare the arguments. Made of a value by hand, there is nothing to announce.
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
        X found;
        const Loaded loaded = incoming.load(object, found, last);
        if (loaded == Loaded::yes) value = std::move(found);
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

/// As a View; with a name, a mismatch raises.
template <class V, Literal... names>
struct Incoming<Argument<V, names...>> {
    using Value = Argument<V, names...>;
    ViewSlot<V> slot;
    Loaded load(PyObject* object, Value& value, [[maybe_unused]] bool last) noexcept {
        if constexpr (Value::raises) {
            const auto loaded = slot.load(object, Value::function_name, Value::argument_name, nullptr);
            if (!loaded) {
                set_python_error(loaded.error());
                return Loaded::raised;
            }
        } else if (const Loaded loaded = slot.try_load(object, last); loaded != Loaded::yes) {
            return loaded;
        }
        value = Value(slot.view, object);
        return Loaded::yes;
    }
    Result<void> announce() noexcept { return slot.announce(Value::function_name, Value::argument_name); }
};

template <class X, Result<X> (*import)(PyObject*, const ImportOptions&) noexcept>
struct IncomingHandle {
    using Value = X;
    IncomingHandle() noexcept = default;
    ~IncomingHandle() { clear(); }
    IncomingHandle(const IncomingHandle&) = delete;
    IncomingHandle& operator=(const IncomingHandle&) = delete;

    Loaded load(PyObject* object, Value& value, bool last) noexcept {
        if (is_no_tensor(object)) return Loaded::no;
        clear();
        Result<X> result = import(object, default_import);
        if (!result) return pass_on(result.error(), last);
        value = std::move(*result);
        if (PyCapsule_CheckExact(object)) {
            capsule = object;
            taken = &value;
        }
        return Loaded::yes;
    }
    Result<void> announce() noexcept {
        capsule = nullptr;
        return {};
    }

private:
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

}  // namespace detail

ISTHMUS_END
