// What binders need: Argument, Reply, As, and how one tensor is borrowed for a call and handed out as its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <array>
#include <optional>

#include <isthmus/core/view/match.h>
#include <isthmus/core/view/sizes.h>
#include <isthmus/python/fields/declare.h>
#include <isthmus/python/framework/facts.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/object_owner.h>

ISTHMUS_BEGIN

/// A result for the caller: `tensor` in the framework of the object `like`, which is an argument of the call and lives as long.
struct Reply {
    Tensor tensor;             ///< the result
    PyObject* like = nullptr;  ///< borrowed; NULL for an isthmus.Tensor
};

/// A result in one framework, whatever the caller's: As<Framework::torch>{tensor}.
template <Framework framework>
struct As {
    Tensor tensor;  ///< the result
    As() noexcept = default;
    /// Takes the result.
    As(Tensor result) noexcept : tensor(std::move(result)) {}
};

namespace detail {
template <class X>
struct Incoming;

/// Any tensor, unchecked: for the length of the call, or owned.
template <class X>
inline constexpr bool is_handle = std::is_same_v<X, Borrowed> || std::is_same_v<X, Tensor>;
}  // namespace detail

/// A View, a Borrowed or a Tensor as an argument, which also knows the Python object it came from: `return x.reply(result)`
/// answers in the caller's own framework. With a name, Argument<V, "image">, or with the function's too, Argument<V, "image",
/// "blur">, a mismatch raises the error that says so, at once; without one, the next overload is tried. Valid for the length of
/// the call; the Tensor of an Argument<Tensor> may be kept.
template <class V, detail::Literal name = "", detail::Literal function = "">
class Argument {
public:
    static_assert(detail::is_view<V> || detail::is_handle<V> || detail::HasFields<V>,
                  "isthmus: an Argument is made of a View, a Borrowed, a Tensor, or a struct with fields (isthmus/fields.h)");
    /// Whether a mismatch raises at once: it does where there is a name.
    static constexpr bool raises = !name.view().empty();
    /// The names in errors; NULL where none was given.
    static constexpr const char* argument_name = raises ? name.text : nullptr;
    static constexpr const char* function_name = function.view().empty() ? nullptr : function.text;
    Argument() noexcept = default;
    /// What a caster makes: the view, and the object that it is of, borrowed.
    Argument(V view, PyObject* object) noexcept : view_(std::move(view)), object_(object) {}

    /// The view itself; `x->data()`, and `x` where a `const V&` is wanted, are the same.
    const V& operator*() const noexcept { return view_; }
    const V* operator->() const noexcept { return &view_; }
    /// As operator*.
    operator const V&() const noexcept { return view_; }
    /// Borrowed from the caller.
    PyObject* object() const noexcept { return object_; }
    /// `tensor` for the caller, in the framework of this argument.
    Reply reply(Tensor tensor) const noexcept { return {std::move(tensor), object_}; }
    /// A struct in the form of this argument (isthmus/fields.h).
    template <detail::HasFields S>
    FieldsReply<S> reply(S fields) const {
        return {std::move(fields), object_};
    }

private:
    template <class>
    friend struct detail::Incoming;

    V view_;
    PyObject* object_ = nullptr;
};

/// New memory for a result, not zeroed, where the argument lives (empty_like() of api.h), of its shape and dtype where nothing
/// else is said: `return x.reply(empty_like(x))`. Throws Error.
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
/// What a Tensor becomes where a function returns one; one for each shared object.
struct DefaultResult {
    bool reply = false;
    Framework framework = Framework::tensor;
};
ISTHMUS_STATE DefaultResult default_result;
}  // namespace detail

/// A Tensor that a function of this extension returns is from now on an array of the framework of the first tensor argument of
/// the call: set_default_result(isthmus::Reply()) in the body of the module. A function that took none returns an
/// isthmus.Tensor.
inline void set_default_result(const Reply&) noexcept { detail::default_result = {.reply = true}; }
/// The same of one framework, whatever the caller's; Framework::tensor is the default.
inline void set_default_result(Framework framework) noexcept { detail::default_result = {.framework = framework}; }

namespace detail {

/// Whether a type is a view or one of the others, or a container of such: std::optional, std::vector, std::map, std::variant,
/// ….
template <class X, class... Others>
inline constexpr bool holds_view = is_view<X> || HasFields<X> || (std::is_same_v<X, Others> || ...);
template <class V, Literal... names, class... Others>
inline constexpr bool holds_view<Argument<V, names...>, Others...> = true;
template <template <class...> class C, class... E, class... Others>
    requires(!HasFields<C<E...>>)
inline constexpr bool holds_view<C<E...>, Others...> = (holds_view<std::remove_cvref_t<E>, Others...> || ...);
template <class E, std::size_t n, class... Others>
inline constexpr bool holds_view<std::array<E, n>, Others...> = holds_view<E, Others...>;

/// Decided quickly, so that trying an overload with a number does not ask every protocol.
inline bool is_no_tensor(PyObject* object) noexcept {
    const PyTypeObject* type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
}

/// Whether an exception translator may be registered with a binder now.
inline bool may_translate() noexcept { return Py_IsInitialized() != 0 && have_gil(); }

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

    /// Passes on an object that is no such tensor, without an error text, unless the failure must not be swallowed (an
    /// interrupt) or is the reason why no overload takes it (`last`).
    Loaded try_load(PyObject* object, const Requirement& r, bool last) noexcept;
    /// The same with an error text. `match` knows the sizes that earlier arguments of the call have named.
    Result<void> load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                      Match* match) noexcept;
    /// Call after a load has succeeded, if the call is refused for another reason: a capsule can then be consumed again.
    void give_back(PyObject* object) noexcept;
    /// Call after a load has succeeded.
    const DLTensor& descriptor() const noexcept { return result_->descriptor(); }
    /// To be called when every argument of the call has been found to fit: a write is announced, once, and a capsule is taken.
    /// Until then the call may be refused for another reason, and the capsule is whole again when the slot ends.
    Result<void> announce(const char* function = nullptr, const char* argument = nullptr) noexcept {
        if (ISTHMUS_LIKELY(pending_ == nullptr)) return {};
        return announce_now(function, argument);
    }

private:
    bool borrow(PyObject* object, const Requirement& r, const char* argument) noexcept;
    Result<void> convert(PyObject* object, const Requirement& r, const char* argument, Match& match) noexcept;
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

/// Whether no other overload is to be tried, and no other text to be reported.
ISTHMUS_COLD inline bool passes_through(const Error& error) noexcept {
    auto* cause = static_cast<PyObject*>(error.cause());
    return error.code() == ErrorCode::out_of_memory || (cause != nullptr && passes_through(cause));
}
/// Like set_python_error(); an exception that passes_through() stays the producer's own.
ISTHMUS_COLD inline Loaded raise_in_call(const Error& error) noexcept {
    if (auto* cause = static_cast<PyObject*>(error.cause()); cause != nullptr && passes_through(cause))
        restore_exception(Py_NewRef(cause));
    else
        set_python_error(error);
    return Loaded::raised;
}
/// What a failed import means while overloads are tried.
ISTHMUS_COLD inline Loaded pass_on(const Error& error, bool last) noexcept {
    if (!passes_through(error) && !(last && error.code() == ErrorCode::requires_grad)) return Loaded::no;
    return raise_in_call(error);
}
/// A failed import as an error of the call. Read-only memory is an argument that does not fit, as a wrong dtype is.
ISTHMUS_COLD inline Error argument_error(const Error& error, const char* function) {
    const std::string prefix = call_prefix(function, nullptr);
    if (error.code() == ErrorCode::read_only) return Error(error.code(), ErrorKind::value, prefix + error.what());
    return error.prefixed(prefix);
}

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
    if (!reply.tensor) Py_RETURN_NONE;
    if (ISTHMUS_LIKELY(parent == nullptr)) return finish(to_py_like(reply.tensor, reply.like));
    const Tensor kept = kept_with(reply.tensor, parent);
    return kept ? finish(to_py_like(kept, reply.like)) : PyErr_NoMemory();
}

/// A result of no stated framework. `like` is the first tensor argument of the call; NULL where it had none.
inline PyObject* to_default_result(const Tensor& tensor, PyObject* like, PyObject* parent = nullptr) noexcept {
    if (ISTHMUS_UNLIKELY(default_result.reply) && like != nullptr) return to_result(Reply{tensor, like}, parent);
    return to_result(tensor, default_result.framework, parent);
}

/// What a signature says of a view: a type that checkers accept, and the constraints in words.
template <class V>
struct Annotation {
    static constexpr void spell(Words& words) {
        words.add("typing.Annotated[isthmus.typing.TensorLike, '");
        if (V::requirement.writable) words.add("writable ");
        words.add(V::words());
        if (V::requirement.converts) words.add(", converted where it differs");
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

}  // namespace detail

ISTHMUS_END
