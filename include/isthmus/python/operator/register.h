// Registration: adds an operator to a module, and announces it to the frameworks that were already imported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/python/operator/definition.h>

ISTHMUS_BEGIN

namespace detail {

/// What an author says of one input: its name, and its default.
// NOLINTNEXTLINE(bugprone-tagged-union-member-count): a tensor or a stream is no default
struct SaidInput {
    enum class Default : std::uint8_t { none, number, integer, boolean, text };
    constexpr SaidInput(const char* name_) noexcept : name(name_) {}
    const char* name;
    Default kind = Default::none;
    ParameterValue value{};
    const char* text = nullptr;
};

/// Fills in what the author said, and checks it. Throws Error.
void name_operator(OperatorDefinition& op, const SaidInput* said, int count);
/// Puts the operator into the module and into the list of all: a new reference to its Python object, or NULL with a Python
/// exception set.
PyObject* publish_operator(OperatorDefinition& op, PyObject* module, const char* doc);
/// Registers `gradient` as that of `op`. Throws Error.
void join_gradient(OperatorDefinition& op, OperatorDefinition& gradient);
/// Registers the functions of a device with `op`. Throws Error if their tensors differ from those of the host's functions.
void join_device(OperatorDefinition& op, const OverloadFacts* overloads, int count);
/// Throws the Python exception that is set as an Error.
[[noreturn]] void throw_registration_error();
/// Registers with the frameworks that were already imported. A failure is reported by the first use.
void offer_operator(OperatorDefinition& op, PyObject* object) noexcept;

}  // namespace detail

ISTHMUS_END
