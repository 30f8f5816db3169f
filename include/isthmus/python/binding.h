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

/// An argument in the making: what was borrowed, and the view of it. Lives as long as the call.
template <class V>
struct ViewSlot {
    Borrowed borrowed;
    V view;

    static ImportOptions options(const char* argument) noexcept {
        ImportOptions options;
        options.require_writable = V::requirement.writable;
        options.argument = argument;
        return options;
    }
    /// False when the object is no such tensor, with no word about it.
    bool try_load(PyObject* object) noexcept {
        if (is_no_tensor(object)) return false;
        Result<Borrowed> result = borrow_py(object, options(nullptr));
        if (!result) return false;
        borrowed = std::move(*result);
        const DLTensor& t = borrowed.descriptor();
        constexpr const Requirement& r = V::requirement;
        if (!meets(t, borrowed.flags(), r)) return false;
        if constexpr (r.size_count >= 0) {
            SizeNames names;
            if (!has_sizes(t, r.sizes, names, nullptr)) return false;
        }
        auto made = borrowed.template view<V>();
        if (!made) return false;
        view = *made;
        return true;
    }
    Result<void> load(PyObject* object, const char* function, const char* argument, Match* match) noexcept {
        Result<Borrowed> result = borrow_py(object, options(argument));
        if (!result)
            return function != nullptr ? result.error().prefixed(call_prefix(function, nullptr)) : std::move(result).error();
        borrowed = std::move(*result);
        if (match != nullptr) {
            auto made = match->template view<V>(argument, borrowed);
            if (!made) return std::move(made).error();
            view = *made;
        } else {
            auto made = borrowed.template view<V>();
            if (!made) return made.error().prefixed(call_prefix(function, argument));
            view = *made;
        }
        return {};
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
    static constexpr Words spell() {
        Words words;
        words.add("typing.Annotated[typing.Any, '");
        if (V::requirement.writable) words.add("writable ");
        words.add(V::words());
        words.add("']");
        return words;
    }
    static constexpr ShortWords<spell().size> text{spell()};
};

/// What a signature says of a result in one framework.
template <Framework framework>
struct ResultAnnotation {
    static constexpr const char* text = find_framework(framework)->annotation;
};

}  // namespace detail

ISTHMUS_END
