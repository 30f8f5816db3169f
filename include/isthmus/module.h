// ISTHMUS_MODULE and def(): a Python module of plain C++ functions, without a binder, over the bare CPython API.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/call_arguments.h>  // Python.h must come before any standard header

#include <string_view>
#include <type_traits>
#include <utility>

#include <isthmus/owned.h>
#include <isthmus/python/captured.h>
#include <isthmus/python/container_results.h>

ISTHMUS_BEGIN

namespace detail {

template <class R>
inline constexpr bool is_as = false;
template <Framework framework>
inline constexpr bool is_as<As<framework>> = true;

template <Framework framework>
PyObject* in_framework(const As<framework>& result) noexcept {
    return to_result(result.tensor, framework);
}

/// A new reference to the result of a function, or NULL with the exception set. `in`: the Arguments of the call.
template <class In, class R>
PyObject* make_result(const In& in, R&& result) {
    using X = std::remove_cvref_t<R>;
    if constexpr (std::is_same_v<X, PyObject*>) {
        return result;
    } else if constexpr (std::is_same_v<X, Tensor>) {
        return in.result(result);
    } else if constexpr (is_owned<X>) {
        return owned_to_py(result, in.first_tensor());
    } else if constexpr (std::is_same_v<X, Reply>) {
        return to_result(result);
    } else if constexpr (is_as<X>) {
        return in_framework(result);
    } else if constexpr (is_value<X>) {
        return value_to_py(result);
    } else if constexpr (is_result<X>) {
        if constexpr (std::is_void_v<decltype(result.value())>)
            return result.value(), Py_NewRef(Py_None);
        else
            return make_result(in, std::forward<R>(result).value());
    } else if constexpr (std::is_same_v<X, bool>) {
        return PyBool_FromLong(result);
    } else if constexpr (std::is_integral_v<X> && std::is_signed_v<X>) {
        return PyLong_FromLongLong(result);
    } else if constexpr (std::is_integral_v<X>) {
        return PyLong_FromUnsignedLongLong(result);
    } else if constexpr (std::is_floating_point_v<X>) {
        return PyFloat_FromDouble(static_cast<double>(result));
    } else if constexpr (std::is_convertible_v<R, std::string_view>) {
        const std::string_view text = result;
        return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    } else if constexpr (std_container<X>) {
        return container_to_py(std::forward<R>(result), [&in]<class E>(E&& element) -> PyObject* {
            return make_result(in, std::forward<E>(element));
        });
    } else if constexpr (requires { fields_to_py(std::forward<R>(result)); }) {
        return fields_to_py(std::forward<R>(result));
    } else if constexpr (requires { result_to_py(result); }) {
        return result_to_py(result);
    } else {
        static_assert(!is_view<X>, "isthmus: a View does not own its memory; return a Tensor, or Argument::object()");
        static_assert(
            sizeof(X) == 0,
            "isthmus: a function returns void, Tensor, Reply, Made, Owned, As<framework>, DType, Device, a number, "
            "bool, text, "
            "PyObject*, or an optional, vector, map, pair or tuple of these");
        return nullptr;
    }
}

/// How a function without parameters is asked for its results.
struct NoArguments {
    static PyObject* first_tensor() noexcept { return nullptr; }
    PyObject* result(const Tensor& tensor) const noexcept { return to_default_result(tensor, nullptr); }
};

template <auto f, class F = decltype(f)>
struct BoundCall {
    static_assert(sizeof(F) == 0, "isthmus: def<f>() expects a function; + in front of a lambda makes it one");
    // The sentence above is the only error.
    static constexpr int count = -1;
    static constexpr bool optional[1] = {};
    static PyCFunction erased() noexcept { return nullptr; }
};
template <auto f, class R, class... A>
struct BoundCall<f, R (*)(A...)> {
    static constexpr int count = sizeof...(A);
    static constexpr bool optional[sizeof...(A) + 1] = {is_optional<std::remove_cvref_t<A>>...};

    static PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) noexcept {
        const BoundFunction& bound = BoundFunction::of(self);
        if constexpr (count == 0) {
            if (!sort_arguments(bound.name, nullptr, 0, args, nargs & PY_SSIZE_T_MAX, kwnames, nullptr)) return nullptr;
            return raising<PyObject*>(bound.name, nullptr, [] { return finish(NoArguments(), f); });
        } else {
            using Names = const char* const[sizeof...(A)];
            Arguments<std::remove_cvref_t<A>...> in(bound.name, *reinterpret_cast<Names*>(bound.parameters));
            if (!in.parse(args, nargs, kwnames)) return nullptr;
            return raising<PyObject*>(bound.name, nullptr, [&] { return pass(in, std::index_sequence_for<A...>()); });
        }
    }
    static PyCFunction erased() noexcept { return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)); }

private:
    template <class In, std::size_t... i>
    static PyObject* pass(In& in, std::index_sequence<i...>) {
        return finish(in, [&]() -> R { return f(static_cast<A&&>(in.template get<i>())...); });
    }
    template <class In, class G>
    static PyObject* finish(const In& in, G&& g) {
        if constexpr (std::is_void_v<R>)
            return g(), Py_NewRef(Py_None);
        else
            return make_result(in, g());
    }
};
template <auto f, class R, class... A>
struct BoundCall<f, R (*)(A...) noexcept> : BoundCall<static_cast<R (*)(A...)>(f)> {};

inline constexpr const char* unnamed_parameters[] = {"arg0",  "arg1",  "arg2",  "arg3", "arg4",  "arg5",
                                                     "arg6",  "arg7",  "arg8",  "arg9", "arg10", "arg11",
                                                     "arg12", "arg13", "arg14", "arg15"};

}  // namespace detail

/// Makes `module.name` of a C++ function. Its parameters are those of Arguments, by position or by name; an optional
/// one may be left out. It returns void (None), a Tensor (in the framework of the call's first tensor argument), a
/// Reply, what Argument::make() made, a number, a bool, a text, a PyObject* (a new reference, or NULL with the
/// exception set), or an optional, vector, map, variant, pair or tuple of these. An Error that it throws is raised as
/// its Python exception, a std::exception as the builtin that fits.
///
///     isthmus::def<scale>(m, "scale", {"x", "k"}, "x times k, in place.");
///
/// The name and those of the parameters are not copied, and outlive the module; `doc` is. A function that cannot be
/// added sets the Python exception, which ISTHMUS_MODULE raises when the module is imported. The GIL must be held.
template <auto f, std::size_t n>
void def(PyObject* module, const char* name, const char* const (&parameters)[n], const char* doc = "") {
    using Bound = detail::BoundCall<f>;
    static_assert(n == Bound::count || Bound::count < 0,
                  "isthmus: def<f>() expects one name for each parameter of the function");
    detail::add_function(module, name, parameters, Bound::count, Bound::optional, doc, Bound::erased());
}
/// The same of a function without parameters, or one whose parameters are called "arg0", "arg1", ….
template <auto f, class Text>
    requires std::is_convertible_v<const Text&, const char*>  // deduced, so that {"x"} is the name of a parameter
void def(PyObject* module, const char* name, const Text& doc) {
    using Bound = detail::BoundCall<f>;
    static_assert(Bound::count <= 16, "isthmus: def<f>() expects the names of more than 16 parameters");
    detail::add_function(module, name, detail::unnamed_parameters, Bound::count, Bound::optional, doc, Bound::erased());
}
template <auto f>
void def(PyObject* module, const char* name) {
    def<f>(module, name, "");
}

/// The third argument of ISTHMUS_MODULE: the module's functions may run concurrently, so that a Python without the GIL
/// stays without it.
struct FreeThreaded {};
inline constexpr FreeThreaded free_threaded;  ///< ISTHMUS_MODULE(first, m, isthmus::free_threaded)

namespace detail {

/// The body of a module, as the interpreter runs it.
inline int run_module(PyObject* module, void (*body)(PyObject*)) noexcept {
    return raising("ISTHMUS_MODULE", -1, [&] {
        set_default_result(Reply());
        body(module);
        return PyErr_Occurred() == nullptr ? 0 : -1;
    });
}

#if defined(Py_TARGET_ABI3T)
/// The definition of a module as slots, of which abi3t is made: a PyModuleDef begins with a PyObject, which it hides.
class ModuleDefinition {
public:
    ModuleDefinition(const char* name, int (*run)(PyObject*)) noexcept
        : slots_{slot(Py_mod_abi, &abi_), slot(Py_mod_name, const_cast<char*>(name)),
                 slot(Py_mod_exec, reinterpret_cast<void*>(run))} {}
    ModuleDefinition(const char* name, int (*run)(PyObject*), FreeThreaded) noexcept : ModuleDefinition(name, run) {
        slots_[3] = slot(Py_mod_gil, Py_MOD_GIL_NOT_USED);
    }
    ModuleDefinition(const ModuleDefinition&) = delete;
    ModuleDefinition& operator=(const ModuleDefinition&) = delete;

    PySlot* init() noexcept { return backend_table != nullptr ? slots_ : nullptr; }

private:
    static PySlot slot(int id, void* value) noexcept {
        PySlot made{};
        made.sl_id = static_cast<std::uint16_t>(id);
        made.sl_flags = PySlot_INTPTR;
        made.sl_ptr = value;
        return made;
    }
    PyABIInfo abi_ = _PyABIInfo_DEFAULT;
    PySlot slots_[5];  // the last is all zeros, which ends the list
};
#else
/// The definition of a module, which the interpreter keeps.
class ModuleDefinition {
public:
    ModuleDefinition(const char* name, int (*run)(PyObject*)) noexcept
        : slots_{{Py_mod_exec, reinterpret_cast<void*>(run)}},
          definition_{PyModuleDef_HEAD_INIT, name, nullptr, 0, nullptr, slots_, nullptr, nullptr, nullptr} {}
    ModuleDefinition(const char* name, int (*run)(PyObject*), FreeThreaded) noexcept : ModuleDefinition(name, run) {
#if defined(Py_GIL_DISABLED)
        slots_[1] = {Py_mod_gil, Py_MOD_GIL_NOT_USED};
#endif
    }
    ModuleDefinition(const ModuleDefinition&) = delete;
    ModuleDefinition& operator=(const ModuleDefinition&) = delete;

    PyObject* init() noexcept { return PyModuleDef_Init(&definition_); }

private:
    PyModuleDef_Slot slots_[3];
    PyModuleDef definition_;
};
#endif

}  // namespace detail

ISTHMUS_END

/// How the interpreter finds a module: in abi3t, the stable ABI of 3.15 and later with and without the GIL, by its
/// slots.
#if defined(Py_TARGET_ABI3T)
#define ISTHMUS_MODULE_ENTRY(name) PyMODEXPORT_FUNC PyModExport_##name()
#else
#define ISTHMUS_MODULE_ENTRY(name) PyMODINIT_FUNC PyInit_##name()
#endif

/// A Python module, and the body that fills it; `variable` is the module, a borrowed PyObject*. A Tensor that a
/// function returns is in the framework of the call's first tensor argument, unless the body calls
/// set_default_result().
///
///     ISTHMUS_MODULE(first, m) { isthmus::def<invert>(m, "invert", {"x"}); }
#define ISTHMUS_MODULE(name, variable, ...)                                               \
    static void isthmus_body_of_##name(PyObject* variable);                               \
    ISTHMUS_MODULE_ENTRY(name) {                                                          \
        static isthmus::detail::ModuleDefinition definition(#name, [](PyObject* module) { \
            return isthmus::detail::run_module(module, isthmus_body_of_##name);           \
        } __VA_OPT__(, ) __VA_ARGS__);                                                    \
        return definition.init();                                                         \
    }                                                                                     \
    static void isthmus_body_of_##name([[maybe_unused]] PyObject* variable)
