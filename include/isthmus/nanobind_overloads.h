// Overloads of nanobind whose TypeError says of each why it does not take the arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/nanobind.h>  // Python.h must come before any standard header

#include <isthmus/python/overloads.h>

ISTHMUS_BEGIN

namespace detail {

/// A parameter of the overload that explains, never given by a caller: its casters refuse it while nanobind looks for
/// an overload without implicit conversions, so that the others are tried with them first.
struct OnlyAfterConversions {};

}  // namespace detail

/// Binds the functions `f` as overloads of `name` in `scope`, a module or a class, with the same `extra` each, and one
/// more that is tried last and raises a TypeError with the sentence of every overload: which argument it did not take,
/// and why.
///
///     isthmus::overloads<sum_float, sum_double>(m, "sum", nb::arg("x"));
template <auto... f, class Scope, class... Extra>
    requires std::is_base_of_v<nanobind::handle, Scope>
void overloads(Scope& scope, const char* name, const Extra&... extra) {
    (scope.def(name, f, extra...), ...);
    const auto explain = [names = detail::parameter_names(extra...), name = std::string(name)](PyObject* args,
                                                                                               PyObject* kwargs) {
        detail::raise_overloads<f...>({name.c_str(), args, kwargs, names});
        return nanobind::object();  // with the exception set: thrown, it would cost as much again
    };
    // A signature that takes nothing, so that type checkers see the overloads alone.
    constexpr bool in_module = std::is_base_of_v<nanobind::module_, Scope>;
    const std::string signature = detail::concat(
        {"def ", name, in_module ? "(" : "(self, ", "*args: typing.Never, **kwargs: typing.Never) -> typing.Never"});
    const auto define = [&](auto last) {
        scope.def(name, last, nanobind::sig(signature.c_str()), nanobind::arg("args"),
                  nanobind::arg("_") = nanobind::none(), nanobind::arg("kwargs"));
    };
    using Last = detail::OnlyAfterConversions;
    if constexpr (in_module)
        define([explain](const nanobind::args& args, Last, const nanobind::kwargs& kwargs) {
            return explain(args.ptr(), kwargs.ptr());
        });
    else
        define([explain](nanobind::handle self, const nanobind::args& args, Last, const nanobind::kwargs& kwargs) {
            return explain((nanobind::make_tuple(self) + args).ptr(), kwargs.ptr());
        });
}

ISTHMUS_END

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

template <>
struct type_caster<isthmus::detail::OnlyAfterConversions> {
    NB_TYPE_CASTER(isthmus::detail::OnlyAfterConversions, const_name("None"))

    bool from_python(handle, std::uint32_t flags, cleanup_list*) noexcept {
        return (flags & static_cast<std::uint32_t>(cast_flags::convert)) != 0;
    }
    static handle from_cpp(isthmus::detail::OnlyAfterConversions, rv_policy, cleanup_list*) noexcept = delete;
};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
