// Arguments: the arguments of a function over the bare CPython API, each as what it is wanted to be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <tuple>

#include <isthmus/python/binding.h>
#include <isthmus/python/runtime/errors.h>

ISTHMUS_BEGIN

namespace detail {

// One Parameter per kind of argument: how it is read, and what its error says.

/// Makes an earlier exception the cause of the one set now. Steals it; NULL does nothing.
ISTHMUS_COLD inline void chain_cause(PyObject* cause) {
    if (cause == nullptr) return;
    PyObject* raised = take_exception();
    PyException_SetCause(raised, Py_NewRef(cause));
    PyException_SetContext(raised, cause);
    restore_exception(raised);
}

/// An exception of the object's own conversion becomes the cause of this one; one that passes_through() stays as it is.
ISTHMUS_COLD inline bool raise_type(const char* function, const char* argument, const char* wanted, PyObject* found) {
    if (PyErr_Occurred() != nullptr && passes_through(PyErr_Occurred())) return false;
    Ref cause(take_exception());
    const PyNumberMethods* number = Py_TYPE(found)->tp_as_number;
    const bool converts = number != nullptr && (number->nb_float != nullptr || number->nb_index != nullptr);
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s': expected %s, got %.200s", function, argument, wanted,
                 Py_TYPE(found)->tp_name);
    if (converts) chain_cause(cause.release());
    return false;
}
/// A number that does not fit; one of thousands of digits is described by its bits, since Python refuses to print it.
ISTHMUS_COLD inline bool raise_too_large(const char* function, const char* argument, PyObject* number, const char* wanted) {
    constexpr std::size_t most_bits = 128;
    Ref cause(take_exception());
    Ref length(PyLong_Check(number) ? PyObject_CallMethod(number, "bit_length", nullptr) : nullptr);
    const std::size_t bits = length ? PyLong_AsSize_t(length.get()) : 0;
    PyErr_Clear();
    if (bits == 0)
        PyErr_Format(PyExc_OverflowError, "%s(): argument '%s': this %.200s is too large: it does not fit %s", function,
                     argument, Py_TYPE(number)->tp_name, wanted);
    else if (bits <= most_bits)
        PyErr_Format(PyExc_OverflowError, "%s(): argument '%s': %R does not fit %s", function, argument, number, wanted);
    else
        PyErr_Format(PyExc_OverflowError, "%s(): argument '%s': an integer of %zu bits is too large: it does not fit %s",
                     function, argument, bits, wanted);
    if (!PyLong_Check(number)) chain_cause(cause.release());
    return false;
}

template <class T>
struct Parameter {
    static_assert(is_view<T>,
                  "isthmus: an argument is a View, Borrowed, Tensor, PyObject*, double, int64_t, bool, string_view, or "
                  "optional of these");
    static constexpr bool required = true;
    ViewSlot<T> slot;
    T& value() noexcept { return slot.view; }
    bool load(PyObject* object, const char* function, const char* argument, Match& match) {
        auto loaded = slot.load(object, function, argument, &match);
        if (ISTHMUS_LIKELY(loaded.has_value())) return true;
        set_python_error(loaded.error());
        return false;
    }
    void give_back(PyObject* object) noexcept { slot.borrowed.give_back(object); }
    /// Called when every argument was found to fit. False with a Python exception set, as load().
    bool announce(const char* function, const char* argument) noexcept {
        auto announced = slot.announce(function, argument);
        if (ISTHMUS_LIKELY(announced.has_value())) return true;
        set_python_error(announced.error());
        return false;
    }
};

/// A parameter that is never written has nothing to announce.
struct SilentParameter {
    static bool announce(const char*, const char*) noexcept { return true; }
};

template <class T, Result<T> (*import)(PyObject*, const ImportOptions&) noexcept>
struct ImportedParameter : SilentParameter {
    static constexpr bool required = true;
    T held;
    T& value() noexcept { return held; }
    bool load(PyObject* object, const char* function, const char* argument, Match&) {
        ImportOptions options;
        options.argument = argument;
        Result<T> result = import(object, options);
        if (ISTHMUS_LIKELY(result.has_value())) {
            held = std::move(*result);
            return true;
        }
        set_python_error(result.error().prefixed(call_prefix(function, nullptr)));
        return false;
    }
    void give_back(PyObject* object) noexcept { isthmus::give_back(object, held); }
};
template <>
struct Parameter<Borrowed> : ImportedParameter<Borrowed, borrow_py> {};
template <>
struct Parameter<Tensor> : ImportedParameter<Tensor, from_py> {};

template <class T>
struct PlainParameter : SilentParameter {
    static constexpr bool required = true;
    T held{};
    T& value() noexcept { return held; }
    void give_back(PyObject*) noexcept {}
};
template <>
struct Parameter<PyObject*> : PlainParameter<PyObject*> {
    bool load(PyObject* object, const char*, const char*, Match&) {
        held = object;
        return true;
    }
};
template <>
struct Parameter<double> : PlainParameter<double> {
    bool load(PyObject* object, const char* function, const char* argument, Match&) {
        held = PyFloat_AsDouble(object);
        if (ISTHMUS_LIKELY(held != -1.0) || PyErr_Occurred() == nullptr) return true;
        return PyErr_ExceptionMatches(PyExc_OverflowError) ? raise_too_large(function, argument, object, "a double")
                                                           : raise_type(function, argument, "a number", object);
    }
};
template <>
struct Parameter<std::int64_t> : PlainParameter<std::int64_t> {
    bool load(PyObject* object, const char* function, const char* argument, Match&) {
        Ref number(PyNumber_Index(object));
        if (!number) return raise_type(function, argument, "an integer", object);
        int overflow = 0;
        held = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
        return overflow == 0 || raise_too_large(function, argument, number.get(), "64 bits");
    }
};
template <>
struct Parameter<bool> : PlainParameter<bool> {
    bool load(PyObject* object, const char* function, const char* argument, Match&) {
        held = object == Py_True;
        return PyBool_Check(object) || raise_type(function, argument, "True or False", object);
    }
};
template <>
struct Parameter<std::string_view> : PlainParameter<std::string_view> {
    bool load(PyObject* object, const char* function, const char* argument, Match&) {
        held = PyUnicode_Check(object) ? detail::utf8_of(object) : std::string_view();
        return held.data() != nullptr || raise_type(function, argument, "a string", object);
    }
};
/// None, or nothing at all.
template <class T>
struct Parameter<std::optional<T>> {
    static constexpr bool required = false;
    Parameter<T> inner;
    std::optional<T> held;
    std::optional<T>& value() noexcept { return held; }
    bool load(PyObject* object, const char* function, const char* argument, Match& match) {
        if (object == Py_None) return true;
        if (!inner.load(object, function, argument, match)) return false;
        held.emplace(std::move(inner.value()));
        return true;
    }
    void give_back(PyObject* object) noexcept {
        if (!held) return;
        inner.value() = std::move(*held);
        inner.give_back(object);
    }
    bool announce(const char* function, const char* argument) noexcept { return inner.announce(function, argument); }
};

/// Sorts what the interpreter passes into one slot per name. False with a TypeError in Python's own words.
inline bool sort_arguments(const char* function, const char* const* names, int count, PyObject* const* args,
                           Py_ssize_t positional, PyObject* kwnames, PyObject** out) {
    if (ISTHMUS_UNLIKELY(positional > count)) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", function, count, positional);
        return false;
    }
    for (Py_ssize_t i = 0; i < positional; ++i) out[i] = args[i];
    const Py_ssize_t keywords = kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t k = 0; k < keywords; ++k) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        int at = 0;
        while (at < count && PyUnicode_CompareWithASCIIString(name, names[at]) != 0) ++at;
        if (ISTHMUS_UNLIKELY(at == count)) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
            return false;
        }
        if (ISTHMUS_UNLIKELY(out[at] != nullptr)) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, name);
            return false;
        }
        out[at] = args[positional + k];
    }
    return true;
}

}  // namespace detail

/// The arguments of a METH_FASTCALL (| METH_KEYWORDS) function, each as what it is wanted to be; named sizes agree between
/// them.
///
///     PyObject* distances(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
///         isthmus::Arguments<View<const float, 2, sizes<"n d">>, View<const float, 2, sizes<"m d">>, std::optional<double>>
///             in("distances", {"a", "b", "power"});
///         if (!in.parse(args, nargs, kwnames)) return nullptr;  // the exception is set
///         auto [a, b, power] = in.values();
///
/// What it borrows ends with this object, which belongs on the stack of the call. The GIL must be held when it ends.
template <class... T>
class Arguments {
    static constexpr int count = sizeof...(T);

public:
    /// The function's name and those of its arguments, for the errors; both must outlive this object.
    Arguments(const char* function, const char* const (&names)[sizeof...(T)]) noexcept : function_(function), match_(function) {
        for (int i = 0; i < count; ++i) names_[i] = names[i];
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    /// False with a Python exception set.
    bool parse(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames = nullptr) noexcept {
        return detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
            if (!detail::sort_arguments(function_, names_, count, args, PyVectorcall_NARGS(static_cast<std::size_t>(nargs)),
                                        kwnames, objects_))
                return false;
            if (ISTHMUS_LIKELY(load(std::index_sequence_for<T...>{}))) return true;
            give_back(std::index_sequence_for<T...>{});
            return false;
        });
    }

    /// Argument `i` as what it is wanted to be; parse() was true before.
    template <std::size_t i>
    auto& get() noexcept {
        return std::get<i>(parameters_).value();
    }
    /// All arguments, for a structured binding; parse() was true before.
    std::tuple<T&...> values() noexcept {
        return std::apply([](auto&... parameter) { return std::tuple<T&...>(parameter.value()...); }, parameters_);
    }
    /// The Python object of argument `i`, borrowed; NULL when it was left out.
    PyObject* object(int i) const noexcept { return objects_[i]; }
    /// What the named sizes stand for, by name.
    const Match& sizes() const noexcept { return match_; }
    /// `tensor` as set_default_result() says; where that is a Reply, in the framework of the first tensor argument.
    PyObject* result(const Tensor& tensor) const noexcept { return detail::to_default_result(tensor, first_tensor()); }
    /// `tensor` in the framework of argument `i`, or NULL with the exception set: what the function returns.
    PyObject* reply(const Tensor& tensor, int i = 0) const noexcept { return detail::to_result(Reply{tensor, objects_[i]}); }

private:
    PyObject* first_tensor() const noexcept {
        constexpr bool takes[] = {detail::holds_view<T, Borrowed, Tensor>...};
        for (int i = 0; i < count; ++i)
            if (takes[i] && objects_[i] != nullptr && objects_[i] != Py_None) return objects_[i];
        return nullptr;
    }
    template <std::size_t... i>
    bool load(std::index_sequence<i...>) {
        return (load_one(std::get<i>(parameters_), static_cast<int>(i)) && ...) &&
               (std::get<i>(parameters_).announce(function_, names_[i]) && ...);
    }
    /// Gives back what was taken for a call that will not be made: a capsule can be taken only once, and may go to another
    /// function.
    template <std::size_t... i>
    ISTHMUS_COLD void give_back(std::index_sequence<i...>) {
        const detail::PendingException refused;
        (std::get<i>(parameters_).give_back(objects_[i]), ...);
    }
    template <class P>
    bool load_one(P& parameter, int i) {
        if (ISTHMUS_LIKELY(objects_[i] != nullptr)) return parameter.load(objects_[i], function_, names_[i], match_);
        if constexpr (!P::required) {
            return true;
        } else {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function_, names_[i]);
            return false;
        }
    }

    const char* function_;
    const char* names_[sizeof...(T)];
    Match match_;
    PyObject* objects_[sizeof...(T)] = {};
    std::tuple<detail::Parameter<T>...> parameters_;
};

ISTHMUS_END

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
