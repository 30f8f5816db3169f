// Isthmus: casters for pybind11 (2.13 and newer), over the bridge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/backend/pybind11.h>

#if PYBIND11_VERSION_MAJOR < 2 || (PYBIND11_VERSION_MAJOR == 2 && PYBIND11_VERSION_MINOR < 13)
#include "Isthmus needs pybind11 2.13 or newer: an older one was found first on the include path"
#endif

#include <isthmus/owned.h>
#include <isthmus/python/agreeing.h>
#include <isthmus/python/value_arguments.h>

ISTHMUS_BEGIN

namespace detail {
ISTHMUS_STATE Atomic<bool> pybind11_translates;
}  // namespace detail

/// Makes isthmus::Error, thrown by a bound function, the Python exception that fits. Done by itself with the first
/// Error that is made while the GIL is held, and with the first tensor that comes in; call it in PYBIND11_MODULE if the
/// first thing is an Error that a function throws without the GIL.
inline void pybind11_translate_errors() {
    detail::run_once(detail::pybind11_translates, [] {
        pybind11::register_exception_translator([](std::exception_ptr thrown) {
            try {
                if (thrown) std::rethrow_exception(thrown);
            } catch (const Error& error) {
                set_python_error(error);
            }
        });
    });
}

namespace detail {

ISTHMUS_STATE ErrorWatcher pybind11_watcher{[]() noexcept {
    if (!pybind11_translates.load_acquire() && may_translate()) swallowing(pybind11_translate_errors);
}};
ISTHMUS_STATE const bool pybind11_watches = watch_errors(pybind11_watcher);

[[noreturn]] ISTHMUS_COLD inline void raise_in_pybind11() {
#if PY_VERSION_HEX < 0x030C0000
    // pybind11 would do it, and raise a RuntimeError if that ends in a MemoryError.
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyErr_Restore(type, value, traceback);
#endif
    throw pybind11::error_already_set();
}
/// A result, or the exception that is set: of NULL pybind11 makes another TypeError.
inline pybind11::handle made(PyObject* result) {
    if (ISTHMUS_UNLIKELY(result == nullptr)) raise_in_pybind11();
    return result;
}

/// The instance whose method returns the result, if the result is to keep it; else NULL.
inline PyObject* parent_of(pybind11::return_value_policy policy, pybind11::handle parent) noexcept {
    return policy == pybind11::return_value_policy::reference_internal ? parent.ptr() : nullptr;
}

/// The interface of every caster of pybind11: a value, passed to the function by reference.
template <class Value>
struct PybindValue {
    template <class U>
    using cast_op_type = pybind11::detail::movable_cast_op_type<U>;
    operator Value*() { return &value; }
    operator Value&() { return value; }
    operator Value&&() && { return std::move(value); }

    Value value;
};
/// The same of what is a result alone, and need not have a value before there is one.
template <class Value>
struct PybindResult {
    template <class U>
    using cast_op_type = pybind11::detail::movable_cast_op_type<U>;
    operator Value*();
    operator Value&();
    operator Value&&() &&;

    ISTHMUS_NO_ARGUMENT(load)
};

/// The steps after an argument was loaded, the same for all types: one function per module.
ISTHMUS_NOINLINE inline bool pybind11_finish(Loaded loaded) {
    if (loaded == Loaded::raised) raise_in_pybind11();
    if (loaded == Loaded::yes) pybind11_translate_errors();
    return loaded == Loaded::yes;
}

template <class X>
ISTHMUS_NOINLINE bool pybind11_load(ArgumentLoader<X>& loader, PyObject* object, X& value, bool convert) {
    static_assert(!is_distinct<X>, ISTHMUS_NOT_COMPARED);
    const Loaded loaded = loader.try_load(object, value, convert);
    return ISTHMUS_LIKELY(loaded == Loaded::yes && pybind11_translates.load_acquire()) || pybind11_finish(loaded);
}

/// The common part of the casters of arguments.
template <class X>
struct PybindArgument : PybindValue<X> {
    // pybind11 asks for these once every argument of the call was read.
    operator X*() { return &committed(); }
    operator X&() { return committed(); }
    operator X&&() && { return std::move(committed()); }

    // It tries every overload without conversions first, and a function without overloads with them at once.
    bool load(pybind11::handle src, bool convert) { return pybind11_load(loader_, src.ptr(), this->value, convert); }

private:
    X& committed() {
        loader_.commit_or_throw();
        return this->value;
    }

    ArgumentLoader<X> loader_;
};
/// A borrow is an argument and nothing else.
template <class X>
struct PybindBorrowed {
    template <class U>
    using cast_op_type = pybind11::detail::movable_cast_op_type<U>;

    PybindBorrowed() = default;
    PybindBorrowed(PybindBorrowed&&) noexcept {  // by pybind11::cast, which ends it before the value is used
        static_assert(sizeof(X) == 0,
                      "isthmus: what is borrowed would end before it is used; in place of pybind11::cast<View<…>> "
                      "take an isthmus::Tensor or an isthmus::Owned<View<…>>");
    }
    template <class U>
    static pybind11::handle cast(U&&, pybind11::return_value_policy, pybind11::handle) {
        static_assert(sizeof(U) == 0,
                      "isthmus: what is borrowed ends with the call; return a Tensor, a Reply or an As<Framework>");
        return {};
    }
};
template <class X>
struct PybindBorrowing : PybindArgument<X>, PybindBorrowed<X> {
    template <class U>
    using cast_op_type = pybind11::detail::movable_cast_op_type<U>;
    PybindBorrowing() = default;
    PybindBorrowing(PybindBorrowing&& other) noexcept : PybindBorrowed<X>(std::move(other)) {}
};

/// The first tensor argument of the call whose result is being made; NULL otherwise.
inline PyObject*& pybind11_like() noexcept {
    static ISTHMUS_THREAD_STATE PyObject* like = nullptr;
    return like;
}
/// Tells it from the function's return to the end of the call.
class PybindLike {
public:
    PybindLike() = default;
    PybindLike(const PybindLike&) = delete;
    PybindLike& operator=(const PybindLike&) = delete;
    ~PybindLike() {
        if (set_) pybind11_like() = before_;
    }
    void found(pybind11::handle argument) noexcept {
        if (object_ == nullptr && !argument.is_none()) object_ = argument.ptr();
    }
    void returned() noexcept {
        if (object_ == nullptr) return;
        before_ = std::exchange(pybind11_like(), object_);
        set_ = true;
    }

private:
    PyObject* object_ = nullptr;
    PyObject* before_ = nullptr;
    bool set_ = false;
};

template <class X>
inline constexpr bool takes_tensor = borrows<X> || is_owned<X> || std::is_same_v<X, Tensor>;
template <class X>
inline constexpr bool takes_tensor<Uncommitted<X>> = true;
template <class X>
inline constexpr bool takes_tensor<std::optional<Uncommitted<X>>> = true;

}  // namespace detail

ISTHMUS_END

namespace PYBIND11_NAMESPACE {
namespace detail {

/// The arguments of a function that takes a tensor, as in pybind11/cast.h; the caster of the result gets the first.
template <class... Args>
    requires(isthmus::detail::takes_tensor<intrinsic_t<Args>> || ...)
class argument_loader<Args...> {
    using indices = make_index_sequence<sizeof...(Args)>;
    template <class Arg>
    using argument_is_args = std::is_same<intrinsic_t<Arg>, args>;
    template <class Arg>
    using argument_is_kwargs = std::is_same<intrinsic_t<Arg>, kwargs>;
    static constexpr auto kwargs_pos = constexpr_last<argument_is_kwargs, Args...>();
    static_assert(kwargs_pos == -1 || kwargs_pos == static_cast<int>(sizeof...(Args)) - 1,
                  "py::kwargs is only permitted as the last argument of a function");

public:
    static constexpr bool has_kwargs = kwargs_pos != -1;
    static constexpr int args_pos = constexpr_last<argument_is_args, Args...>();
    static_assert(args_pos == -1 || args_pos == constexpr_first<argument_is_args, Args...>(),
                  "py::args cannot be specified more than once");
    static constexpr auto arg_names = ::pybind11::detail::concat(type_descr(make_caster<Args>::name)...);

    bool load_args(function_call& call) { return load(call, indices{}); }
    template <class Return, class Guard, class Func>
    auto call(Func&& f) && -> std::conditional_t<std::is_void_v<Return>, void_type, Return> {
        const Returning returning{like_};
        if constexpr (std::is_void_v<Return>)
            return call_with<Return>(f, indices{}, Guard{}), void_type();
        else
            return call_with<Return>(f, indices{}, Guard{});
    }

private:
    struct Returning {
        isthmus::detail::PybindLike& like;
        ~Returning() { like.returned(); }
    };

    template <std::size_t... i>
    bool load(function_call& call, index_sequence<i...>) {
        if ((!std::get<i>(casters_).of.load(call.args[i], call.args_convert[i]) || ...)) return false;
        if (isthmus::detail::default_result.reply)
            ((isthmus::detail::takes_tensor<intrinsic_t<Args>> ? like_.found(call.args[i]) : void()), ...);
        return true;
    }
    template <class Return, class Func, std::size_t... i, class Guard>
    std::remove_cv_t<Return> call_with(Func& f, index_sequence<i...>, Guard&&) {
        return f(cast_op<Args>(std::move(std::get<i>(casters_).of))...);
    }

    std::tuple<isthmus::detail::Unzeroed<make_caster<Args>>...> casters_;
    isthmus::detail::PybindLike like_;
};

template <class T, int N, class... C>
struct type_caster<isthmus::View<T, N, C...>> : isthmus::detail::PybindBorrowing<isthmus::View<T, N, C...>> {
    static constexpr auto name = const_name(isthmus::detail::Annotation<isthmus::View<T, N, C...>>::text.text);
};
template <class V, isthmus::detail::Literal... names>
struct type_caster<isthmus::Argument<V, names...>> : isthmus::detail::PybindBorrowing<isthmus::Argument<V, names...>> {
    static constexpr auto name = type_caster<V>::name;
};
template <class X>
struct type_caster<isthmus::detail::Uncommitted<X>>
    : isthmus::detail::PybindBorrowing<isthmus::detail::Uncommitted<X>> {
    static constexpr auto name = type_caster<X>::name;
};
template <>
struct type_caster<isthmus::Borrowed> : isthmus::detail::PybindBorrowing<isthmus::Borrowed> {
    static constexpr auto name = const_name("isthmus.typing.TensorLike");
};

/// What may be cast by hand, and is a result: in the framework of the call's first tensor argument, if that is asked.
template <class X>
struct isthmus_owning_caster : isthmus::detail::PybindArgument<X> {
    isthmus_owning_caster() = default;
    isthmus_owning_caster(isthmus_owning_caster&& other) noexcept {  // pybind11::cast hands the caster out
        this->value = std::move(static_cast<X&>(other));
    }
    static PyObject* like() noexcept {
        return isthmus::detail::default_result.reply ? isthmus::detail::pybind11_like() : nullptr;
    }
};
/// As a result an isthmus.Tensor, which every framework takes; an empty one is None.
template <>
struct type_caster<isthmus::Tensor> : isthmus_owning_caster<isthmus::Tensor> {
#if PYBIND11_VERSION_MAJOR >= 3
    static constexpr auto name = io_name("isthmus.typing.TensorLike", "isthmus.Tensor");
#else
    static constexpr auto name = const_name("isthmus.Tensor");
#endif
    static handle cast(const isthmus::Tensor& tensor, return_value_policy policy, handle parent) {
        return isthmus::detail::made(
            isthmus::detail::to_default_result(tensor, like(), isthmus::detail::parent_of(policy, parent)));
    }
};
template <class V>
struct type_caster<isthmus::Owned<V>> : isthmus_owning_caster<isthmus::Owned<V>> {
#if PYBIND11_VERSION_MAJOR >= 3
    static constexpr auto name =
        io_name(isthmus::detail::Annotation<V>::text.text, isthmus::detail::OwnedWords<V>::result);
#else
    static constexpr auto name = const_name(isthmus::detail::Annotation<V>::text.text);
#endif
    static handle cast(const isthmus::Owned<V>& owned, return_value_policy policy, handle parent) {
        using Caster = isthmus_owning_caster<isthmus::Owned<V>>;
        return isthmus::detail::made(
            isthmus::detail::owned_to_py(owned, Caster::like(), isthmus::detail::parent_of(policy, parent)));
    }
};

template <isthmus::Framework framework>
struct type_caster<isthmus::As<framework>> : isthmus::detail::PybindResult<isthmus::As<framework>> {
    static constexpr auto name = const_name(isthmus::detail::ResultAnnotation<framework>::text.text);

    static handle cast(const isthmus::As<framework>& result, return_value_policy policy, handle parent) {
        return isthmus::detail::made(
            isthmus::detail::to_result(result.tensor, framework, isthmus::detail::parent_of(policy, parent)));
    }
};

template <>
struct type_caster<isthmus::Reply> : isthmus::detail::PybindResult<isthmus::Reply> {
    static constexpr auto name = const_name("typing.Any");

    static handle cast(const isthmus::Reply& reply, return_value_policy policy, handle parent) {
        return isthmus::detail::made(isthmus::detail::to_result(reply, isthmus::detail::parent_of(policy, parent)));
    }
};

/// A struct of isthmus/fields.h. As a result it is a dict.
template <isthmus::detail::HasFields S>
struct type_caster<S> : isthmus::detail::PybindArgument<S> {
    template <class U>
    using cast_op_type = movable_cast_op_type<U>;
    static constexpr auto name = const_name(isthmus::detail::Annotation<S>::text.text);

    static handle cast(const S& fields, return_value_policy, handle) {
        return isthmus::detail::made(result_to_py(isthmus::FieldsReply<S>{fields}));
    }
};
/// A result that says what it becomes: of isthmus/fields.h, isthmus/records.h or Argument::make().
template <class X>
    requires requires { X::isthmus_annotation; }
struct type_caster<X> : isthmus::detail::PybindResult<X> {
    static constexpr auto name = const_name(X::isthmus_annotation);
    static handle cast(const X& result, return_value_policy, handle) {
        return isthmus::detail::made(result_to_py(result));
    }
};

#if defined(ISTHMUS_WITH_TORCH)  // <isthmus/torch.h> came first
/// Partial, so that <torch/extension.h>, before this header or behind it, brings its own caster: that one is then used.
template <class X>
struct type_caster<X, enable_if_t<std::is_same_v<X, at::Tensor>>> : isthmus::detail::PybindValue<at::Tensor> {
    static constexpr auto name = const_name("torch.Tensor");

    bool load(handle src, bool) {
        if (isthmus::detail::is_no_tensor(src.ptr())) return false;
        auto result = isthmus::from_py_torch(src.ptr());
        if (!result && isthmus::detail::pass_on(result.error(), false) == isthmus::detail::Loaded::raised)
            isthmus::detail::raise_in_pybind11();
        if (!result) return false;
        isthmus::pybind11_translate_errors();
        this->value = std::move(*result);
        return true;
    }
    static handle cast(const at::Tensor& tensor, return_value_policy, handle) {
        return isthmus::detail::made(isthmus::detail::finish(isthmus::to_py(tensor, isthmus::Undefined::none)));
    }
};
#endif

}  // namespace detail
}  // namespace PYBIND11_NAMESPACE

#include <isthmus/bind/pybind11_containers.h>
#include <isthmus/bind/pybind11_values.h>
