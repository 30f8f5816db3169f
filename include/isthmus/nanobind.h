// Isthmus: casters for nanobind, over the bridge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <cstring>

#include <isthmus/backend/nanobind.h>

#if NB_VERSION_MAJOR < 2 || (NB_VERSION_MAJOR == 2 && NB_VERSION_MINOR < 7)
#include "Isthmus needs nanobind 2.7 or newer: an older one was found first on the include path"
#endif

#include <isthmus/owned.h>
#include <isthmus/python/agreeing.h>
#include <isthmus/python/container_results.h>

// Whether an argument's type may say that None is welcome.
#if NB_VERSION_MAJOR > 2 || (NB_VERSION_MAJOR == 2 && NB_VERSION_MINOR >= 11)
#define ISTHMUS_NANOBIND_KNOWS_DEFAULTS 1
#endif
// Whether its own pair and tuple keep the elements that a sequence created on access until the call.
#if NB_VERSION_MAJOR > 3 || (NB_VERSION_MAJOR == 3 && NB_VERSION_MINOR >= 1)
#define ISTHMUS_NANOBIND_HOLDS_PAIRS 1
#else
#include <tuple>
#endif

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_STATE Atomic<bool> nanobind_translates;

inline void translate_for_nanobind(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const Error& error) {
        set_python_error(error);
    }
}

}  // namespace detail

/// Makes isthmus::Error, thrown by a bound function, the Python exception that fits. Done by itself with the first
/// Error that is made while the GIL is held, and with the first tensor that comes in; call it in NB_MODULE if the first
/// thing is an Error that a function throws without the GIL.
inline void nanobind_translate_errors() {
    detail::run_once(detail::nanobind_translates,
                     [] { nanobind::register_exception_translator(detail::translate_for_nanobind); });
}

namespace detail {

/// Before the module is initialised nanobind has no list of translators yet.
inline bool nanobind_is_ready() noexcept {
#if defined(NB_CTX)
    if (NB_CTX == nullptr) return false;
#endif
    return nanobind::is_alive();
}
ISTHMUS_STATE ErrorWatcher nanobind_watcher{[]() noexcept {
    if (!nanobind_translates.load_acquire() && may_translate() && nanobind_is_ready())
        swallowing(nanobind_translate_errors);
}};
ISTHMUS_STATE const bool nanobind_watches = watch_errors(nanobind_watcher);

/// nb::cast<View>() would hand out a view of something already let go.
constexpr bool is_call([[maybe_unused]] std::uint32_t flags) noexcept {
    if constexpr (requires { nanobind::detail::cast_flags::manual; })
        return (flags & static_cast<std::uint32_t>(nanobind::detail::cast_flags::manual)) == 0;
    else
        return true;
}

/// The instance whose method returns the result, if the result is to keep it; else NULL.
inline PyObject* parent_of(nanobind::rv_policy policy, const nanobind::detail::cleanup_list* cleanup) noexcept {
    return policy == nanobind::rv_policy::reference_internal && cleanup != nullptr ? cleanup->self() : nullptr;
}

/// The first tensor argument of the overload that ran, if a result is to follow it.
inline PyObject* like_of(const nanobind::detail::cleanup_list* cleanup) noexcept {
    return default_result.reply && cleanup != nullptr ? find_like(cleanup) : nullptr;
}

/// The steps after an argument was loaded, the same for all types: one function per module.
ISTHMUS_NOINLINE inline bool nanobind_finish(Loaded loaded) {
    if (loaded == Loaded::raised) nanobind::raise_python_error();
    if (loaded != Loaded::yes) return false;
    nanobind_translate_errors();
    return true;
}
/// Loads what a caster of arguments is for. An owning handle may be cast by hand, a borrow may not.
template <class X, class Load, class Note>
ISTHMUS_ALWAYS_INLINE bool nanobind_load_by(Load load, Note note, PyObject* object, std::uint32_t flags,
                                            nanobind::detail::cleanup_list* cleanup) {
    if (!std::is_same_v<X, Tensor> && !is_owned<X> && !is_call(flags)) return false;
    // nanobind tries every overload without conversions first, and a function without overloads with them at once.
    const bool last = (flags & static_cast<std::uint32_t>(nanobind::detail::cast_flags::convert)) != 0;
    const Loaded loaded = load(last);
    if (ISTHMUS_LIKELY(loaded == Loaded::yes && nanobind_translates.load_acquire() && !default_result.reply))
        return true;
    if (!nanobind_finish(loaded)) return false;
    if (default_result.reply && cleanup != nullptr && is_call(flags) && object != Py_None) note();
    return true;
}
template <class X>
ISTHMUS_NOINLINE bool nanobind_load(ArgumentLoader<X>& loader, PyObject* object, std::uint32_t flags, X& value,
                                    nanobind::detail::cleanup_list* cleanup) {
    static_assert(!is_distinct<X>, ISTHMUS_NOT_COMPARED);
    return nanobind_load_by<X>([&](bool last) { return loader.try_load(object, value, last); },
                               [&] { note_in(loader, object, cleanup, value); }, object, flags, cleanup);
}
/// The same of the views of all types: a third of a module of many functions.
ISTHMUS_NOINLINE inline bool nanobind_load_slot(BorrowSlot& slot, PyObject* object, std::uint32_t flags,
                                                const Requirement& r, nanobind::detail::cleanup_list* cleanup) {
    return nanobind_load_by<Borrowed>([&](bool last) { return slot.try_load(object, r, last); },
                                      [&] { slot.note(object, cleanup); }, object, flags, cleanup);
}

/// Most arguments: as show_without_borrow(). One function for the views of all types.
ISTHMUS_NOINLINE inline bool nanobind_show(const BorrowSlot& slot, PyObject* object, std::uint32_t flags,
                                           const Requirement& r, ArrayParts& parts) noexcept {
    return is_call(flags) && nanobind_translates.load_acquire() && !default_result.reply && slot.is_empty() &&
           show_array(object, r, parts);
}

/// Whether the function that calls from_python() is one that an exception may leave: nanobind's containers are
/// noexcept. Inlined, so that the compiler knows: it is asked for every argument.
ISTHMUS_FOLDED bool may_throw_through(const char* caller) noexcept {
    // GCC writes the arguments of a template behind its name.
    return std::strncmp(caller, "operator()", 10) == 0 || std::strncmp(caller, "from_python_remember_conv", 25) == 0 ||
           std::strcmp(caller, "load") == 0 || std::strncmp(caller, "load<", 5) == 0;
}
ISTHMUS_COLD inline bool is_main_thread() noexcept {
    const Ref threading(PyImport_ImportModule("threading"));
    const Ref main(threading ? PyObject_CallMethod(threading.get(), "main_thread", nullptr) : nullptr);
    const Ref ident(main ? PyObject_GetAttrString(main.get(), "ident") : nullptr);
    return ident && PyLong_AsUnsignedLong(ident.get()) == PyThread_get_thread_ident();
}
/// After an exception where none may be thrown: false, so that nanobind tries the next overload, which must start
/// without one. An interrupt or a lack of memory is raised by the interpreter, as soon as it looks for signals; on
/// another thread than the main one without its arguments.
ISTHMUS_COLD inline bool postpone_for_nanobind(nanobind::python_error& error) noexcept {
    if (!error.matches(PyExc_MemoryError) && error.matches(PyExc_Exception)) return false;
    auto* kept = is_main_thread() ? new (std::nothrow) nanobind::python_error(std::move(error)) : nullptr;
    PyErr_Clear();
    const auto raise = [](void* raised) noexcept {
        auto* later = static_cast<nanobind::python_error*>(raised);
        later->restore();
        delete later;
        return -1;
    };
    if (kept != nullptr && Py_AddPendingCall(raise, kept) == 0) return false;
    (void)PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), (kept != nullptr ? *kept : error).type().ptr());
    delete kept;
    return false;
}
template <class F>
ISTHMUS_FOLDED bool nanobind_without_throwing(F&& load) {
    try {
        return load();
    } catch (nanobind::python_error& error) {
        return postpone_for_nanobind(error);
    } catch (const std::bad_alloc&) {
        (void)PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), PyExc_MemoryError);
        return false;
    }
}
template <class F>
ISTHMUS_FOLDED bool nanobind_try(const char* caller, F&& load) {
    return may_throw_through(caller) ? load() : nanobind_without_throwing(load);
}
/// nanobind_load_slot() where nothing may be thrown.
ISTHMUS_NOINLINE inline bool nanobind_try_slot(BorrowSlot& slot, PyObject* object, std::uint32_t flags,
                                               const Requirement& r, nanobind::detail::cleanup_list* cleanup) {
    return nanobind_without_throwing([&] { return nanobind_load_slot(slot, object, flags, r, cleanup); });
}

}  // namespace detail

ISTHMUS_END

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

/// As NB_TYPE_CASTER makes it, but for the conversions: nanobind asks for them once every argument of the call was
/// read.
template <class X, class Text>
struct isthmus_argument_caster {
    using Value = X;
    static constexpr auto Name = Text::text();
    template <class T>
    using Cast = movable_cast_t<T>;
    template <class T>
    static constexpr bool can_cast() {
        return true;
    }
    explicit operator X*() { return &committed(); }
    explicit operator X&() { return committed(); }
    explicit operator X&&() { return static_cast<X&&>(committed()); }

    ISTHMUS_FOLDED bool from_python(handle src, std::uint32_t flags, cleanup_list* cleanup,
                                    const char* caller = ISTHMUS_CALLER) {
        return isthmus::detail::nanobind_try(
            caller, [&] { return isthmus::detail::nanobind_load(loader, src.ptr(), flags, value, cleanup); });
    }

private:
    X& committed() {
        loader.commit_or_throw();
        return value;
    }

    X value;
    isthmus::detail::ArgumentLoader<X> loader;
};
/// A borrow is an argument and nothing else. nanobind asks can_cast() of a caster that ends before its value is used.
struct isthmus_refused_outside_a_call {
    template <class T>
    static constexpr bool can_cast() {
        static_assert(sizeof(T) == 0,
                      "isthmus: what is borrowed would end before it is used. For a container as an argument include "
                      "<isthmus/nanobind_stl.h>; in place of nanobind::cast<View<…>> take an isthmus::Tensor or an "
                      "isthmus::Owned<View<…>>");
        return false;
    }
    template <class V>
    static handle from_cpp(V&&, rv_policy, cleanup_list*) noexcept {
        static_assert(sizeof(V) == 0,
                      "isthmus: what is borrowed ends with the call; return a Tensor, a Reply or an As<Framework>");
        return {};
    }
};
template <class X, class Text>
struct isthmus_borrowing_caster : isthmus_argument_caster<X, Text>, isthmus_refused_outside_a_call {
    using isthmus_refused_outside_a_call::can_cast;
};
template <class V>
struct isthmus_view_name {
    static constexpr auto text() { return const_name(isthmus::detail::Annotation<V>::text.text); }
};
template <class V, isthmus::detail::Literal... names>
struct isthmus_view_name<isthmus::Argument<V, names...>> : isthmus_view_name<V> {};
template <class V>
struct isthmus_view_name<isthmus::Owned<V>> : isthmus_view_name<V> {};
template <class X>
    requires isthmus::detail::is_handle<X>
struct isthmus_view_name<X> {
    static constexpr auto text() { return const_name("isthmus.typing.TensorLike"); }
};
template <class V>
struct isthmus_optional_name {
    static constexpr auto text() { return optional_name(isthmus_view_name<V>::text()); }
};
struct isthmus_any_name {
    static constexpr auto text() { return const_name("isthmus.typing.TensorLike"); }
};
template <class X>
struct isthmus_same_name {
    static constexpr auto text() { return type_caster<X>::Name; }
};

/// Keeps what was borrowed, and makes the view of it once every argument of the call was read.
template <class T, int N, class... C>
struct type_caster<isthmus::View<T, N, C...>> : isthmus_refused_outside_a_call {
    using Value = isthmus::View<T, N, C...>;
    static constexpr auto Name = isthmus_view_name<Value>::text();
    template <class U>
    using Cast = movable_cast_t<U>;
    type_caster() noexcept {}  // NOLINT(modernize-use-equals-default): nanobind's own tuples would write zeros first
    explicit operator Value*() { return &committed(); }
    explicit operator Value&() { return committed(); }
    explicit operator Value&&() { return static_cast<Value&&>(committed()); }

    ISTHMUS_FOLDED bool from_python(handle src, std::uint32_t flags, cleanup_list* cleanup,
                                    const char* caller = ISTHMUS_CALLER) {
        static_assert(!isthmus::detail::is_distinct<Value>, ISTHMUS_NOT_COMPARED);
        if constexpr (isthmus::detail::shows_arrays<Value>) {
            isthmus::detail::ArrayParts parts;
            if (ISTHMUS_LIKELY(isthmus::detail::nanobind_show(slot, src.ptr(), flags, Value::requirement, parts))) {
                value = isthmus::detail::view_of_array<Value>(parts);
                return true;
            }
        }
        // One call, without a lambda: with -Os that would stay a function, which is handed references.
        return isthmus::detail::may_throw_through(caller)
                   ? isthmus::detail::nanobind_load_slot(slot, src.ptr(), flags, Value::requirement, cleanup)
                   : isthmus::detail::nanobind_try_slot(slot, src.ptr(), flags, Value::requirement, cleanup);
    }

private:
    Value& committed() {
        if (ISTHMUS_LIKELY(slot.is_empty())) return value;
        slot.commit_or_throw(nullptr, nullptr);
        return value = isthmus::detail::view_of<Value>(slot.descriptor());
    }

    Value value;
    isthmus::detail::BorrowSlot slot;
};
/// Elements that NumPy alone has, of <isthmus/records.h>.
template <class T, int N, class... C>
    requires isthmus::detail::NumpyElement<T>
struct type_caster<isthmus::View<T, N, C...>>
    : isthmus_borrowing_caster<isthmus::View<T, N, C...>, isthmus_view_name<isthmus::View<T, N, C...>>> {};
template <class T, int N, class... C>
struct type_caster<std::optional<isthmus::View<T, N, C...>>>
    : isthmus_borrowing_caster<std::optional<isthmus::View<T, N, C...>>,
                               isthmus_optional_name<isthmus::View<T, N, C...>>> {};
template <class V, isthmus::detail::Literal... names>
struct type_caster<isthmus::Argument<V, names...>>
    : isthmus_borrowing_caster<isthmus::Argument<V, names...>, isthmus_view_name<V>> {
    type_caster() noexcept {}  // NOLINT(modernize-use-equals-default): as above
};
template <class V, isthmus::detail::Literal... names>
struct type_caster<std::optional<isthmus::Argument<V, names...>>>
    : isthmus_borrowing_caster<std::optional<isthmus::Argument<V, names...>>, isthmus_optional_name<V>> {};
template <class X>
struct type_caster<isthmus::detail::Uncommitted<X>>
    : isthmus_borrowing_caster<isthmus::detail::Uncommitted<X>, isthmus_same_name<X>> {};
template <class V>
struct type_caster<std::optional<isthmus::detail::Uncommitted<V>>>
    : isthmus_borrowing_caster<std::optional<isthmus::detail::Uncommitted<V>>, isthmus_optional_name<V>> {};
/// A struct of isthmus/fields.h. As a result it is a dict.
template <isthmus::detail::HasFields S>
struct type_caster<S> : isthmus_argument_caster<S, isthmus_view_name<S>> {
    static handle from_cpp(const S& fields, rv_policy, cleanup_list*) noexcept {
        return result_to_py(isthmus::FieldsReply<S>{fields});
    }
};
template <class X>
struct isthmus_no_caster;  // of isthmus/bind/nanobind_values.h: it holds no value
/// A result that says what it becomes: of isthmus/fields.h, isthmus/records.h or Argument::make().
template <class X>
    requires requires { X::isthmus_annotation; }
struct type_caster<X> : isthmus_no_caster<X> {
    static constexpr auto Name = const_name(X::isthmus_annotation);

    ISTHMUS_NO_ARGUMENT(from_python)
    static handle from_cpp(const X& result, rv_policy, cleanup_list*) noexcept { return result_to_py(result); }
};
template <>
struct type_caster<isthmus::Borrowed> : isthmus_borrowing_caster<isthmus::Borrowed, isthmus_any_name> {
    type_caster() noexcept {}  // NOLINT(modernize-use-equals-default): as above
};

struct isthmus_tensor_name {
    static constexpr auto text() { return io_name("isthmus.typing.TensorLike", "isthmus.Tensor"); }
};
/// As a result an isthmus.Tensor, which every framework takes; an empty one is None.
template <>
struct type_caster<isthmus::Tensor> : isthmus_argument_caster<isthmus::Tensor, isthmus_tensor_name> {
    static handle from_cpp(const isthmus::Tensor& tensor, rv_policy policy, cleanup_list* cleanup) noexcept {
        return isthmus::detail::to_default_result(tensor, isthmus::detail::like_of(cleanup),
                                                  isthmus::detail::parent_of(policy, cleanup));
    }
};

template <class V>
struct isthmus_owned_name {
    static constexpr auto text() {
        return io_name(isthmus::detail::Annotation<V>::text.text, isthmus::detail::OwnedWords<V>::result);
    }
};
template <class V>
struct type_caster<isthmus::Owned<V>> : isthmus_argument_caster<isthmus::Owned<V>, isthmus_owned_name<V>> {
    static handle from_cpp(const isthmus::Owned<V>& owned, rv_policy policy, cleanup_list* cleanup) noexcept {
        return isthmus::detail::owned_to_py(owned, isthmus::detail::like_of(cleanup),
                                            isthmus::detail::parent_of(policy, cleanup));
    }
};

template <isthmus::Framework framework>
struct type_caster<isthmus::As<framework>> {
    NB_TYPE_CASTER(isthmus::As<framework>, const_name(isthmus::detail::ResultAnnotation<framework>::text.text))

    ISTHMUS_NO_ARGUMENT(from_python)
    static handle from_cpp(const isthmus::As<framework>& result, rv_policy policy, cleanup_list* cleanup) noexcept {
        return isthmus::detail::to_result(result.tensor, framework, isthmus::detail::parent_of(policy, cleanup));
    }
};

template <>
struct type_caster<isthmus::Reply> {
    NB_TYPE_CASTER(isthmus::Reply, const_name("typing.Any"))

    ISTHMUS_NO_ARGUMENT(from_python)
    static handle from_cpp(const isthmus::Reply& reply, rv_policy policy, cleanup_list* cleanup) noexcept {
        return isthmus::detail::to_result(reply, isthmus::detail::parent_of(policy, cleanup));
    }
};

#if defined(ISTHMUS_WITH_TORCH)  // <isthmus/torch.h> came first
template <>
struct type_caster<at::Tensor> {
    NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

    ISTHMUS_FOLDED bool from_python(handle src, std::uint32_t, cleanup_list*, const char* caller = ISTHMUS_CALLER) {
        return isthmus::detail::nanobind_try(caller, [&] {
            if (isthmus::detail::is_no_tensor(src.ptr())) return false;
            auto result = isthmus::from_py_torch(src.ptr());
            if (!result && isthmus::detail::pass_on(result.error(), false) == isthmus::detail::Loaded::raised)
                nanobind::raise_python_error();
            if (!result) return false;
            isthmus::nanobind_translate_errors();
            value = std::move(*result);
            return true;
        });
    }
    static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::finish(isthmus::to_py(tensor, isthmus::Undefined::none));
    }
};
#endif

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)

#include <isthmus/bind/nanobind_containers.h>
#include <isthmus/bind/nanobind_values.h>
