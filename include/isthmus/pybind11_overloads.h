// Overloads of pybind11 whose TypeError says of each why it does not take the arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/pybind11.h>  // Python.h must come before any standard header

#include <isthmus/python/overloads.h>

ISTHMUS_BEGIN

namespace detail {

/// pybind11::make_tuple() raises a RuntimeError if there is no memory.
inline pybind11::tuple tuple_with(pybind11::handle object) {
    return pybind11::reinterpret_steal<pybind11::tuple>(made(PyTuple_Pack(1, object.ptr())));
}

/// The first positional argument of the overload that explains. Its caster refuses it while pybind11 looks for an
/// overload without implicit conversions, so that the others are tried with them first; pybind11 tries a second time
/// only if there is a positional argument.
struct FirstArgument {
    pybind11::handle object;
    pybind11::tuple tuple() const { return object.ptr() == Py_NotImplemented ? pybind11::tuple() : tuple_with(object); }
};

}  // namespace detail

/// Binds the functions `f` as overloads of `name` in `scope`, a module or a class, with the same `extra` each, and one
/// more that is tried last and raises a TypeError with the sentence of every overload: which argument it did not take,
/// and why.
///
///     isthmus::overloads<sum_float, sum_double>(m, "sum", py::arg("x"));
template <auto... f, class Scope, class... Extra>
    requires std::is_base_of_v<pybind11::handle, Scope>
void overloads(Scope& scope, const char* name, const Extra&... extra) {
    (scope.def(name, f, extra...), ...);
    const auto explain = [names = detail::parameter_names(extra...), name = std::string(name)](PyObject* args,
                                                                                               PyObject* kwargs) {
        detail::raise_overloads<f...>({name.c_str(), args, kwargs, names});
        detail::raise_in_pybind11();
    };
    // Left out, it is the mark; else it is the first of the arguments.
    const auto mark = pybind11::reinterpret_borrow<pybind11::object>(Py_NotImplemented);
    const auto define = [&](auto last) { scope.def(name, last, pybind11::arg("_") = mark); };
    using First = detail::FirstArgument;
    if constexpr (std::is_base_of_v<pybind11::module_, Scope>)
        define([explain](First first, const pybind11::args& args, const pybind11::kwargs& kwargs) {
            explain((first.tuple() + args).ptr(), kwargs.ptr());
        });
    else
        define(
            [explain](pybind11::handle self, First first, const pybind11::args& args, const pybind11::kwargs& kwargs) {
                explain((detail::tuple_with(self) + first.tuple() + args).ptr(), kwargs.ptr());
            });
}

ISTHMUS_END

namespace PYBIND11_NAMESPACE {
namespace detail {

template <>
struct type_caster<isthmus::detail::FirstArgument> : isthmus::detail::PybindValue<isthmus::detail::FirstArgument> {
    static constexpr auto name = const_name("object");
    bool load(handle src, bool convert) noexcept {
        value.object = src;
        return convert;
    }
};

}  // namespace detail
}  // namespace PYBIND11_NAMESPACE
