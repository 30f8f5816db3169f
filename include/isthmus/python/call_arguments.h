// Arguments as def() needs them: all of <isthmus/python/arguments.h> but <tuple>, which values() needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define ISTHMUS_CALL_ARGUMENTS 1  // <isthmus/python.h> comes last, not from <isthmus/owned.h>

#include <isthmus/python/distinct.h>  // Python.h must come before any standard header

#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <isthmus/owned.h>
#include <isthmus/python/value_arguments.h>

ISTHMUS_BEGIN

namespace detail {

/// A TypeError. An exception of the object's own conversion becomes the cause of this one; one that passes_through()
/// stays. `function` may be NULL.
ISTHMUS_RARE bool raise_type(const char* function, const char* argument, const char* wanted, PyObject* found) noexcept;
/// The same with a text of pieces, for layers above.
ISTHMUS_RARE bool raise_type(const char* function, const char* argument, Message wanted, PyObject* found) noexcept;
/// "f() missing required argument 'x'"
ISTHMUS_RARE bool raise_missing(const char* function, const char* argument) noexcept;

/// A number, a truth or a text. False with the exception set.
bool read_scalar(PyObject* object, double& value, const char* function, const char* argument) noexcept;
bool read_scalar(PyObject* object, std::int64_t& value, const char* function, const char* argument) noexcept;
bool read_scalar(PyObject* object, bool& value, const char* function, const char* argument) noexcept;
bool read_scalar(PyObject* object, std::string_view& value, const char* function, const char* argument) noexcept;

/// A value that is read by load() alone: nothing is held.
template <class T>
struct PlainLoader {
    static bool commit(const char*, const char*) noexcept { return true; }
    static void roll_back(PyObject*, T&) noexcept {}
};
template <>
struct ArgumentLoader<PyObject*> : PlainLoader<PyObject*> {
    static Loaded load(PyObject* object, PyObject*& value, const char*, const char*, Match*) noexcept {
        value = object;
        return Loaded::yes;
    }
};
template <class T>
struct ScalarLoader : PlainLoader<T> {
    static Loaded load(PyObject* object, T& value, const char* function, const char* argument, Match*) noexcept {
        return read_scalar(object, value, function, argument) ? Loaded::yes : Loaded::raised;
    }
};
template <>
struct ArgumentLoader<std::int64_t> : ScalarLoader<std::int64_t> {};
template <>
struct ArgumentLoader<bool> : ScalarLoader<bool> {};
template <>
struct ArgumentLoader<std::string_view> : ScalarLoader<std::string_view> {};
template <>
struct ArgumentLoader<std::string> : PlainLoader<std::string> {
    static Loaded load(PyObject* object, std::string& value, const char* function, const char* argument,
                       Match*) noexcept {
        std::string_view text;
        if (!read_scalar(object, text, function, argument)) return Loaded::raised;
        try {
            return value = text, Loaded::yes;
        } catch (const std::bad_alloc&) {
            return PyErr_NoMemory(), Loaded::raised;
        }
    }
};
/// "f(): argument 'n': 300 does not fit an integer from 0 to 255"
ISTHMUS_COLD inline Loaded raise_range(const char* function, const char* argument, std::int64_t found,
                                       std::int64_t least, std::uint64_t most) noexcept {
    PyErr_Format(PyExc_OverflowError, "%s(): argument '%s': %lld does not fit an integer from %lld to %llu", function,
                 argument, static_cast<long long>(found), static_cast<long long>(least),
                 static_cast<unsigned long long>(most));
    return Loaded::raised;
}
/// The integers other than std::int64_t; characters are none.
template <class T>
concept OtherInteger =
    !std::is_same_v<T, std::int64_t> &&
    (std::is_same_v<T, signed char> || std::is_same_v<T, short> || std::is_same_v<T, int> || std::is_same_v<T, long> ||
     std::is_same_v<T, long long> || std::is_same_v<T, unsigned char> || std::is_same_v<T, unsigned short> ||
     std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long> || std::is_same_v<T, unsigned long long>);
template <OtherInteger T>
struct ArgumentLoader<T> : PlainLoader<T> {
    static Loaded load(PyObject* object, T& value, const char* function, const char* argument, Match*) noexcept {
        std::int64_t wide = 0;
        if (!read_scalar(object, wide, function, argument)) return Loaded::raised;
        value = static_cast<T>(wide);
        if (ISTHMUS_LIKELY((wide < 0) == (value < T{}) && static_cast<std::int64_t>(value) == wide)) return Loaded::yes;
        using Limits = std::numeric_limits<T>;
        return raise_range(function, argument, wide, static_cast<std::int64_t>((Limits::min)()), (Limits::max)());
    }
};
template <>
struct ArgumentLoader<float> : PlainLoader<float> {
    static Loaded load(PyObject* object, float& value, const char* function, const char* argument, Match*) noexcept {
        double wide = 0;
        if (!read_scalar(object, wide, function, argument)) return Loaded::raised;
        return value = static_cast<float>(wide), Loaded::yes;
    }
};
/// The value of a float that is not of a subclass.
inline double exact_double(PyObject* object) noexcept {
#if defined(Py_LIMITED_API)
    return PyFloat_AsDouble(object);
#else
    return PyFloat_AS_DOUBLE(object);
#endif
}
template <>
struct ArgumentLoader<double> : ScalarLoader<double> {
    static Loaded load(PyObject* object, double& value, const char* function, const char* argument,
                       Match* match) noexcept {
        if (ISTHMUS_UNLIKELY(!PyFloat_CheckExact(object)))
            return ScalarLoader::load(object, value, function, argument, match);
        value = exact_double(object);
        return Loaded::yes;
    }
};

/// An argument by its position: a std::tuple would cost every file that calls def(). The loader is not zeroed: it may
/// hold a kilobyte that load() writes.
template <std::size_t i, class T>
struct ArgumentSlot {
    ArgumentSlot() noexcept(noexcept(T())) {}

    T value{};
    ArgumentLoader<T> loader;
};
template <class Indices, class... T>
struct ArgumentSlots;
template <std::size_t... i, class... T>
struct ArgumentSlots<std::index_sequence<i...>, T...> : ArgumentSlot<i, T>... {};

/// Whether an argument may be left out.
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

bool sort_by_name(const char* function, const char* const* names, int count, PyObject* const* args,
                  Py_ssize_t positional, PyObject* kwnames, PyObject** out) noexcept;
/// Sorts what the interpreter passes into one slot per name. False with a TypeError in Python's own words.
inline bool sort_arguments(const char* function, const char* const* names, int count, PyObject* const* args,
                           Py_ssize_t positional, PyObject* kwnames, PyObject** out) noexcept {
    if (ISTHMUS_UNLIKELY(kwnames != nullptr || positional > count))
        return sort_by_name(function, names, count, args, positional, kwnames, out);
    for (Py_ssize_t i = 0; i < positional; ++i) out[i] = args[i];
    return true;
}

}  // namespace detail

/// The arguments of a METH_FASTCALL (| METH_KEYWORDS) function, each as its declared type; named sizes agree between
/// them.
///
///     using Rows = View<const float, 2, sizes<"n d">>;
///     using Others = View<const float, 2, sizes<"m d">>;
///     PyObject* distances(PyObject*, PyObject* const* args, Py_ssize_t nargs,
///                         PyObject* kwnames) {
///         isthmus::Arguments<Rows, Others, std::optional<double>> in("distances",
///                                                                    {"a", "b", "power"});
///         if (!in.parse(args, nargs, kwnames)) return nullptr;  // the exception is set
///         auto [a, b, power] = in.values();
///
/// The borrows end with this object, which belongs on the stack of the call. The GIL must be held when it ends.
template <class... T>
class Arguments {
    static constexpr int count = sizeof...(T);

public:
    /// The function's name and those of its arguments, for the errors; both must outlive this object.
    Arguments(const char* function, const char* const (&names)[sizeof...(T)]) noexcept
        : function_(function), match_(function) {
        for (int i = 0; i < count; ++i) names_[i] = names[i];
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    /// False with a Python exception set.
    bool parse(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames = nullptr) noexcept {
        return detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
            if (!detail::sort_arguments(function_, names_, count, args, nargs & PY_SSIZE_T_MAX, kwnames, objects_))
                return false;
            if (ISTHMUS_LIKELY(load(std::index_sequence_for<T...>{}))) return true;
            roll_back(std::index_sequence_for<T...>{});
            return false;
        });
    }

    /// Argument `i` as its declared type; parse() was true before.
    template <std::size_t i>
    auto& get() noexcept {
        return slot<i>(slots_).value;
    }
    /// All arguments, for a structured binding; parse() was true before. It needs <tuple>.
    template <class Tuple = std::tuple<T&...>>
    Tuple values() noexcept {
        return all<Tuple>(std::index_sequence_for<T...>{});
    }
    /// The Python object of argument `i`, borrowed; NULL when it was left out.
    PyObject* object(int i) const noexcept { return objects_[i]; }
    /// The values of the named sizes, by name.
    const Match& sizes() const noexcept { return match_; }
    /// `tensor` as set_default_result() says; if that is a Reply, in the framework of the first tensor argument.
    PyObject* result(const Tensor& tensor) const noexcept { return detail::to_default_result(tensor, first_tensor()); }
    /// `tensor` in the framework of argument `i`, or NULL with the exception set: what the function returns.
    PyObject* reply(const Tensor& tensor, int i = 0) const noexcept {
        return detail::to_result(Reply{tensor, objects_[i]});
    }

    /// The Python object of the first tensor argument that was given, borrowed; NULL if there is none.
    PyObject* first_tensor() const noexcept {
        constexpr bool takes[] = {detail::holds_view<T, Borrowed, Tensor>...};
        for (int i = 0; i < count; ++i)
            if (takes[i] && objects_[i] != nullptr && objects_[i] != Py_None) return objects_[i];
        return nullptr;
    }

private:
    using Slots = detail::ArgumentSlots<std::index_sequence_for<T...>, T...>;

    template <std::size_t i, class X>
    static detail::ArgumentSlot<i, X>& slot(detail::ArgumentSlot<i, X>& found) noexcept {
        return found;
    }
    template <class Tuple, std::size_t... i>
    Tuple all(std::index_sequence<i...>) noexcept {
        return Tuple(get<i>()...);
    }
    template <std::size_t... i>
    bool load(std::index_sequence<i...>) {
        return (load_one(slot<i>(slots_)) && ...) && are_distinct(std::index_sequence<i...>()) &&
               (slot<i>(slots_).loader.commit(function_, names_[i]) && ...);
    }
    template <std::size_t... i>
    bool are_distinct(std::index_sequence<i...>) {
        if constexpr ((detail::is_distinct<T> || ...)) {
            const Result<void> good = detail::check_distinct(function_, names_, slot<i>(slots_).value...);
            if (ISTHMUS_UNLIKELY(!good)) return detail::raise_in_call(good.error()) == detail::Loaded::yes;
        }
        return true;
    }
    template <std::size_t i, class X>
    bool load_one(detail::ArgumentSlot<i, X>& to) {
        if (ISTHMUS_LIKELY(objects_[i] != nullptr))
            return to.loader.load(objects_[i], to.value, function_, names_[i], &match_) == detail::Loaded::yes;
        return detail::is_optional<X> || detail::raise_missing(function_, names_[i]);
    }
    /// Ends what was taken for a call that will not be made: a capsule can be taken only once, and may go to another
    /// function.
    template <std::size_t... i>
    ISTHMUS_COLD void roll_back(std::index_sequence<i...>) {
        PyObject *type = nullptr, *refused = nullptr, *trace = nullptr;
        PyErr_Fetch(&type, &refused, &trace);
        (slot<i>(slots_).loader.roll_back(objects_[i], slot<i>(slots_).value), ...);
        PyErr_Restore(type, refused, trace);
    }

    const char* function_;
    const char* names_[sizeof...(T)];
    Match match_;
    PyObject* objects_[sizeof...(T)] = {};
    Slots slots_;
};

namespace detail {

/// What the calls of a function of a module read; the function's `__self__`, a capsule, owns it.
struct BoundFunction {
    const char* name;
    const char* const* parameters;

    static const BoundFunction& of(PyObject* self) noexcept {
        return *static_cast<const BoundFunction*>(PyCapsule_GetPointer(self, nullptr));
    }
};

/// Adds a function to the module; nothing if an exception is set, and with an exception if it cannot.
void add_function(PyObject* module, const char* name, const char* const* parameters, int count, const bool* optional,
                  const char* doc, PyCFunction call) noexcept;

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_ARGUMENTS)
ISTHMUS_BEGIN
namespace detail {
inline bool read_scalar(PyObject* object, std::string_view& value, const char* function,
                        const char* argument) noexcept {
    TextRef text{};
    const bool is_read = backend::read_text(object, text, function, argument);
    value = text;
    return is_read;
}
}  // namespace detail
ISTHMUS_END
#endif

#if !defined(ISTHMUS_FIELDS) && !defined(ISTHMUS_RECORDS)
#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
#endif
