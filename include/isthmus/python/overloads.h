// Why no overload takes the arguments of a call: the sentence of each, for the overload that a binder tries last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/incoming.h>  // Python.h must come before any standard header

#include <string>
#include <vector>

#include <isthmus/python/agreeing.h>

ISTHMUS_BEGIN

namespace detail {

/// A parameter as the author of the function named it.
struct ParameterName {
    const char* name;  ///< NULL where it was annotated and not named
    bool has_default;
};

/// The names among the extras that a binder gets beside the function: `name_` and `value` of nanobind's arg, `name` and `value`
/// of pybind11's.
template <class... Extra>
std::vector<ParameterName> parameter_names([[maybe_unused]] const Extra&... extra) {
    std::vector<ParameterName> names;
    [[maybe_unused]] const auto add = [&]<class E>([[maybe_unused]] const E& one) {
        constexpr bool has_default = requires { one.value; };
        if constexpr (requires { one.name_; })
            names.push_back({one.name_, has_default});
        else if constexpr (requires { one.name; })
            names.push_back({one.name, has_default});
    };
    (add(extra), ...);
    return names;
}

/// A call that no overload took. `args` and `kwargs` are borrowed; `kwargs` may be NULL.
struct RefusedCall {
    const char* function;
    PyObject* args;
    PyObject* kwargs;
    const std::vector<ParameterName>& names;  ///< empty, or one for each parameter but the instance of a method

    Py_ssize_t positional() const noexcept { return PyTuple_GET_SIZE(args); }
    /// The name of parameter `place` of `count`; "arg0" where the author gave none.
    std::string name_of(std::size_t place, std::size_t count) const {
        const std::size_t unnamed = count - names.size();
        const char* given = names.empty() || place < unnamed ? nullptr : names[place - unnamed].name;
        return given == nullptr ? concat({"arg", place}) : std::string(given);
    }
    bool has_default(std::size_t place, std::size_t count) const noexcept {
        const std::size_t unnamed = count - names.size();
        return !names.empty() && place >= unnamed && names[place - unnamed].has_default;
    }
    /// Borrowed; NULL where it was left out.
    PyObject* argument(std::size_t place, const char* name) const {
        if (static_cast<Py_ssize_t>(place) < positional()) return PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(place));
        return kwargs != nullptr ? PyDict_GetItemString(kwargs, name) : nullptr;
    }
};

/// Whether an object is such an argument; the Error says why it is not. A parameter that is no tensor is left to the binder.
template <class A>
struct Judged {
    static Result<void> judge(PyObject* object, const char* name) {
        if constexpr (is_view<A>) {
            ViewSlot<A> slot;
            return slot.load(object, nullptr, name, nullptr);
        } else {
            return {};
        }
    }
};
template <class X, Result<X> (*import)(PyObject*, const ImportOptions&) noexcept>
struct JudgedHandle {
    static Result<void> judge(PyObject* object, const char* name) {
        ImportOptions options;
        options.argument = name;
        Result<X> taken = import(object, options);
        if (!taken) return std::move(taken).error();
        give_back(object, *taken);
        return {};
    }
};
template <>
struct Judged<Borrowed> : JudgedHandle<Borrowed, borrow_py> {};
template <>
struct Judged<Tensor> : JudgedHandle<Tensor, from_py> {};
template <class V, Literal... own>
struct Judged<Argument<V, own...>> : Judged<V> {};
template <class X>
struct Judged<std::optional<X>> {
    static Result<void> judge(PyObject* object, const char* name) {
        return object == Py_None ? Result<void>() : Judged<X>::judge(object, name);
    }
};

/// Why a function of these parameters does not take the call; empty, with the exception set, where one passes through.
template <class... A>
std::string explain_signature(const RefusedCall& call) {
    constexpr std::size_t count = sizeof...(A);
    constexpr Result<void> (*judges[])(PyObject*, const char*) = {Judged<std::remove_cvref_t<A>>::judge..., nullptr};
    if (call.positional() > static_cast<Py_ssize_t>(count))
        return concat({"takes ", count, " arguments, got ", call.positional()});
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = call.name_of(i, count);
        PyObject* object = call.argument(i, name.c_str());
        if (object == nullptr) {
            if (call.has_default(i, count)) continue;
            return concat({"argument '", name, "' is missing"});
        }
        const Result<void> judged = judges[i](object, name.c_str());
        if (judged) continue;
        if (passes_through(judged.error())) {
            (void)raise_in_call(judged.error());
            return {};
        }
        return judged.error().what();
    }
    return "another argument, which is no tensor, does not fit";
}
template <class R, class... A>
std::string explain_function(const RefusedCall& call, R (*)(A...)) {
    return explain_signature<A...>(call);
}

/// A pointer to a function with the parameters of what a binder binds: of a member function its instance first.
template <class F>
struct BoundSignature : BoundSignature<decltype(signature_of(&F::operator()))> {};
template <class R, class... A>
struct BoundSignature<R (*)(A...)> : std::type_identity<R (*)(A...)> {};
template <class R, class... A>
struct BoundSignature<R (*)(A...) noexcept> : std::type_identity<R (*)(A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...)> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) const> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) noexcept> : std::type_identity<R (*)(C*, A...)> {};
template <class C, class R, class... A>
struct BoundSignature<R (C::*)(A...) const noexcept> : std::type_identity<R (*)(C*, A...)> {};

/// Sets the TypeError of a call that none of the functions takes, or what passed through while they were asked.
template <auto... f>
void raise_overloads(const RefusedCall& call) {
    std::string text = concat({call.function, "(): no overload takes these arguments:"});
    bool raised = false;
    const auto tell = [&](const std::string& why) {
        raised = raised || PyErr_Occurred() != nullptr;
        if (!raised && text.find(why) == std::string::npos) text += concat({"\n  ", why});
    };
    ((raised ? void() : tell(explain_function(call, typename BoundSignature<std::remove_cv_t<decltype(f)>>::type{}))), ...);
    if (!raised) PyErr_SetString(PyExc_TypeError, text.c_str());
}

}  // namespace detail

ISTHMUS_END
