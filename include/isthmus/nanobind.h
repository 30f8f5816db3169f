// Isthmus: casters for nanobind, over the bridge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <nanobind/nanobind.h>

#include <isthmus/python/agreeing.h>
#include <isthmus/python/binding.h>

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_STATE bool nanobind_translates = false;

inline void translate_for_nanobind(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const Error& error) {
        set_python_error(error);
    }
}

}  // namespace detail

/// Makes isthmus::Error, thrown by a bound function, the Python exception that fits. Done by itself with the first tensor that
/// comes in; call it in NB_MODULE where functions throw that take none.
inline void nanobind_translate_errors() {
    if (detail::nanobind_translates) return;
    detail::nanobind_translates = true;
    nanobind::register_exception_translator(detail::translate_for_nanobind);
}

namespace detail {

template <class V>
bool load_for_nanobind(ViewSlot<V>& slot, PyObject* object) noexcept {
    if (!slot.try_load(object)) return false;
    nanobind_translate_errors();
    return true;
}

/// nb::cast<View>() would hand out a view of something already let go.
constexpr bool is_call([[maybe_unused]] std::uint32_t flags) noexcept {
    if constexpr (requires { nanobind::detail::cast_flags::manual; })
        return (flags & static_cast<std::uint32_t>(nanobind::detail::cast_flags::manual)) == 0;
    else
        return true;
}

}  // namespace detail

ISTHMUS_END

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

/// Borrowed for the length of the call. A mismatch lets the next overload be tried.
template <class T, int N, class... C>
struct type_caster<isthmus::View<T, N, C...>> {
    using View = isthmus::View<T, N, C...>;
    NB_TYPE_CASTER(View, const_name(isthmus::detail::Annotation<View>::text.text))

    bool from_python(handle src, std::uint32_t flags, cleanup_list*) noexcept {
        if (!isthmus::detail::is_call(flags) || !isthmus::detail::load_for_nanobind(slot, src.ptr())) return false;
        value = slot.view;
        return true;
    }
    template <class V>
    static handle from_cpp(V&&, rv_policy, cleanup_list*) noexcept {
        static_assert(sizeof(V) == 0, "isthmus: a view owns nothing; return a Tensor, a Reply or an As<Framework>");
        return {};
    }

private:
    isthmus::detail::ViewSlot<View> slot;
};

/// None is no view. (The caster of std::optional would let go of what was borrowed before the call.)
template <class T, int N, class... C>
struct type_caster<std::optional<isthmus::View<T, N, C...>>> {
    using View = isthmus::View<T, N, C...>;
    using Optional = std::optional<View>;
    NB_TYPE_CASTER(Optional, optional_name(const_name(isthmus::detail::Annotation<View>::text.text)))

    bool from_python(handle src, std::uint32_t flags, cleanup_list*) noexcept {
        if (src.is_none()) return value.reset(), true;
        if (!isthmus::detail::is_call(flags) || !isthmus::detail::load_for_nanobind(slot, src.ptr())) return false;
        value = slot.view;
        return true;
    }
    template <class V>
    static handle from_cpp(V&&, rv_policy, cleanup_list*) noexcept {
        static_assert(sizeof(V) == 0, "isthmus: a view owns nothing; return a Tensor, a Reply or an As<Framework>");
        return {};
    }

private:
    isthmus::detail::ViewSlot<View> slot;
};

/// As a View; with a name, a mismatch raises.
template <class V, isthmus::detail::Literal... names>
struct type_caster<isthmus::Argument<V, names...>> {
    using Argument = isthmus::Argument<V, names...>;
    NB_TYPE_CASTER(Argument, const_name(isthmus::detail::Annotation<V>::text.text))

    bool from_python(handle src, std::uint32_t flags, cleanup_list*) {
        if (!isthmus::detail::is_call(flags)) return false;
        if constexpr (!Argument::raises) {
            if (!isthmus::detail::load_for_nanobind(slot, src.ptr())) return false;
        } else if (auto loaded = slot.load(src.ptr(), Argument::function_name, Argument::argument_name, nullptr); !loaded) {
            isthmus::set_python_error(loaded.error());
            raise_python_error();
        } else {
            isthmus::nanobind_translate_errors();
        }
        value = Argument(slot.view, src.ptr());
        return true;
    }
    template <class A>
    static handle from_cpp(A&&, rv_policy, cleanup_list*) noexcept {
        static_assert(sizeof(A) == 0, "isthmus: a view owns nothing; return a Tensor, a Reply or an As<Framework>");
        return {};
    }

private:
    isthmus::detail::ViewSlot<V> slot;
};

template <>
struct type_caster<isthmus::Borrowed> {
    NB_TYPE_CASTER(isthmus::Borrowed, const_name("typing.Any"))

    bool from_python(handle src, std::uint32_t, cleanup_list*) noexcept {
        if (isthmus::detail::is_no_tensor(src.ptr())) return false;
        auto result = isthmus::borrow_py(src.ptr());
        if (!result) return false;
        isthmus::nanobind_translate_errors();
        value = std::move(*result);
        return true;
    }
    template <class B>
    static handle from_cpp(B&&, rv_policy, cleanup_list*) noexcept {
        static_assert(sizeof(B) == 0, "isthmus: a Borrowed ends with the call; return a Tensor");
        return {};
    }
};

/// An owning handle: may be stored. As a result an isthmus.Tensor, which every framework takes; an empty one is None.
template <>
struct type_caster<isthmus::Tensor> {
    NB_TYPE_CASTER(isthmus::Tensor, io_name("typing.Any", "isthmus.Tensor"))

    bool from_python(handle src, std::uint32_t, cleanup_list*) noexcept {
        if (isthmus::detail::is_no_tensor(src.ptr())) return false;
        auto result = isthmus::from_py(src.ptr());
        if (!result) return false;
        isthmus::nanobind_translate_errors();
        value = std::move(*result);
        return true;
    }
    static handle from_cpp(const isthmus::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::to_result(tensor);
    }
};

template <isthmus::Framework framework>
struct type_caster<isthmus::As<framework>> {
    NB_TYPE_CASTER(isthmus::As<framework>, const_name(isthmus::detail::ResultAnnotation<framework>::text))

    bool from_python(handle, std::uint32_t, cleanup_list*) noexcept = delete;
    static handle from_cpp(const isthmus::As<framework>& result, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::to_result(result.tensor, framework);
    }
};

template <>
struct type_caster<isthmus::Reply> {
    NB_TYPE_CASTER(isthmus::Reply, const_name("typing.Any"))

    bool from_python(handle, std::uint32_t, cleanup_list*) noexcept = delete;
    static handle from_cpp(const isthmus::Reply& reply, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::to_result(reply);
    }
};

#if defined(ISTHMUS_WITH_TORCH)  // <isthmus/torch.h> came first
template <>
struct type_caster<at::Tensor> {
    NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

    bool from_python(handle src, std::uint32_t, cleanup_list*) noexcept {
        if (isthmus::detail::is_no_tensor(src.ptr())) return false;
        auto result = isthmus::from_py_torch(src.ptr());
        if (!result) return false;
        isthmus::nanobind_translate_errors();
        value = std::move(*result);
        return true;
    }
    static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
        return isthmus::detail::finish(isthmus::to_py(tensor));
    }
};
#endif

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
