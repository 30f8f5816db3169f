// How arguments are sorted and scalars read, what their errors say, and why no overload takes a call.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/call_arguments.h>
#include <isthmus/python/overloads.h>
#include "runtime/errors.h"
#include "runtime/lookups.h"

ISTHMUS_BEGIN

namespace detail {

/// Makes an earlier exception the cause of the one set now. Steals it; NULL does nothing.
ISTHMUS_COLD inline void chain_cause(PyObject* cause) {
    if (cause == nullptr) return;
    PyObject* raised = take_exception();
    PyException_SetCause(raised, Py_NewRef(cause));
    PyException_SetContext(raised, cause);
    restore_exception(raised);
}

bool raise_type(const char* function, const char* argument, const char* wanted, PyObject* found) noexcept {
    return raise_type(function, argument, Message(wanted), found);
}
ISTHMUS_RARE bool raise_type(const char* function, const char* argument, Message wanted, PyObject* found) noexcept {
    if (PyErr_Occurred() != nullptr && passes_through(PyErr_Occurred())) return false;
    Ref cause(take_exception());
    const PyNumberMethods* number = Py_TYPE(found)->tp_as_number;
    const bool converts = number != nullptr && (number->nb_float != nullptr || number->nb_index != nullptr);
    set_exception(PyExc_TypeError,
                  {of_call(function, argument), "expected ", wanted, ", got ", Py_TYPE(found)->tp_name});
    if (converts) chain_cause(cause.release());
    return false;
}
ISTHMUS_RARE bool raise_missing(const char* function, const char* argument) noexcept {
    PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function, argument);
    return false;
}
/// A number that does not fit; one of thousands of digits is described by its bits, since Python refuses to print it.
ISTHMUS_COLD inline bool raise_too_large(const char* function, const char* argument, PyObject* number,
                                         const char* wanted) {
    constexpr std::size_t max_bits = 128;
    Ref cause(take_exception());
    Ref length(PyLong_Check(number) ? PyObject_CallMethod(number, "bit_length", nullptr) : nullptr);
    const std::size_t bits = length ? PyLong_AsSize_t(length.get()) : 0;
    if (is_interrupted()) return false;
    const Piece where = of_call(function, argument);
    const Ref digits(bits != 0 && bits <= max_bits ? PyObject_Repr(number) : nullptr);
    if (PyErr_Occurred() != nullptr) return false;
    if (digits)
        set_exception(PyExc_OverflowError, {where, utf8_of(digits.get()), " does not fit ", wanted});
    else if (bits == 0)
        set_exception(PyExc_OverflowError,
                      {where, "this ", Py_TYPE(number)->tp_name, " is too large: it does not fit ", wanted});
    else
        set_exception(PyExc_OverflowError,
                      {where, "an integer of ", bits, " bits is too large: it does not fit ", wanted});
    if (!PyLong_Check(number)) chain_cause(cause.release());
    return false;
}

bool read_scalar(PyObject* object, double& value, const char* function, const char* argument) noexcept {
    value = PyFloat_AsDouble(object);
    if (ISTHMUS_LIKELY(value != -1.0) || PyErr_Occurred() == nullptr) return true;
    return PyErr_ExceptionMatches(PyExc_OverflowError) ? raise_too_large(function, argument, object, "a double")
                                                       : raise_type(function, argument, "a number", object);
}
bool read_scalar(PyObject* object, std::int64_t& value, const char* function, const char* argument) noexcept {
    Ref number(PyNumber_Index(object));
    if (!number) return raise_type(function, argument, "an integer", object);
    int overflow = 0;
    value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
    return overflow == 0 || raise_too_large(function, argument, number.get(), "64 bits");
}
bool read_scalar(PyObject* object, bool& value, const char* function, const char* argument) noexcept {
    value = object == Py_True;
    return PyBool_Check(object) || raise_type(function, argument, "True or False", object);
}
bool read_scalar(PyObject* object, std::string_view& value, const char* function, const char* argument) noexcept {
    value = PyUnicode_Check(object) ? utf8_of(object) : std::string_view();
    return value.data() != nullptr || raise_type(function, argument, "a string", object);
}

bool sort_by_name(const char* function, const char* const* names, int count, PyObject* const* args,
                  Py_ssize_t positional, PyObject* kwnames, PyObject** out) noexcept {
    if (ISTHMUS_UNLIKELY(positional > count)) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given", function, count,
                     count == 1 ? "" : "s", positional, positional == 1 ? "was" : "were");
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

/// A call that no overload took, as one of them sees it.
struct SeenCall {
    const RefusedCall& call;
    std::size_t count;    ///< of the parameters
    std::size_t unnamed;  ///< those before the first that has a name

    const ParameterName* named(std::size_t place) const noexcept {
        return call.names.empty() || place < unnamed ? nullptr : &call.names[place - unnamed];
    }
    /// "arg0" if the author gave none.
    std::string name_of(std::size_t place) const {
        const ParameterName* given = named(place);
        return given == nullptr || given->name == nullptr ? concat({"arg", place}) : std::string(given->name);
    }
    /// Empty if it was left out, or with a Python exception set.
    Ref argument(std::size_t place, const char* name) const {
        const auto at = static_cast<Py_ssize_t>(place);
        if (at < PyTuple_GET_SIZE(call.args)) return Ref::borrow(PyTuple_GET_ITEM(call.args, at));
        return call.kwargs != nullptr ? dict_item(call.kwargs, name) : Ref();
    }
};

/// The text of the exception that is set, which is cleared; empty, and it stays set, if it passes through.
inline TextBuffer take_reason() noexcept {
    if (passes_through(PyErr_Occurred())) return {};
    const Ref raised(take_exception()), text(PyObject_Str(raised.get()));
    return compose({utf8_of(text.get())});
}

/// Why a function of these parameters does not take the call; empty, with the exception set, if one passes through.
inline TextBuffer explain_overload(const RefusedCall& call, const BoundOverload& overload) {
    const std::size_t count = overload.count;
    const SeenCall seen{call, count, count - call.names.size()};
    if (PyTuple_GET_SIZE(call.args) > static_cast<Py_ssize_t>(count))
        return compose({"takes ", count, " arguments, got ", PyTuple_GET_SIZE(call.args)});
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = seen.name_of(i);
        const Ref object = seen.argument(i, name.c_str());
        if (!object) {
            if (PyErr_Occurred() != nullptr) return {};
            if (const ParameterName* given = seen.named(i); given != nullptr && given->has_default) continue;
            return compose({"argument '", name, "' is missing"});
        }
        if (overload.checks[i] != nullptr && !overload.checks[i](object.get(), name.c_str())) return take_reason();
    }
    return compose({"another argument, which is no tensor, does not fit"});
}

void raise_overloads(const RefusedCall& call, const BoundOverload* overloads, std::size_t count) {
    TextBuffer text = compose({call.function, "(): no overload takes these arguments:"});
    for (std::size_t i = 0; i < count; ++i) {
        const TextBuffer why = with_memory([&] { return explain_overload(call, overloads[i]); }, TextBuffer());
        if (PyErr_Occurred() != nullptr) return;
        if (why.failed()) text.fail();
        if (text.view().find(why.view()) == std::string_view::npos) (text += "\n  ") += why.view();
    }
    set_exception(PyExc_TypeError, text);
}

}  // namespace detail

ISTHMUS_END
