// OperatorDefinition: one operator as every back end knows it, from its facts and the names that its author gave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <isthmus/python/operator/facts.h>

ISTHMUS_BEGIN

namespace detail {

struct OperatorDefinition;

/// The functions that frameworks call, one set for each operator: what a framework passes does not identify the operator.
struct OperatorEntries {
    void (*torch)(std::uint64_t* stack, std::uint64_t inputs, std::uint64_t outputs) = nullptr;
    void (*torch_batched)(std::uint64_t* stack, std::uint64_t inputs, std::uint64_t outputs) = nullptr;
    void* (*xla)(void* frame) = nullptr;
    void* (*xla_cuda)(void* frame) = nullptr;
};

/// An input by name, with its default.
struct OperatorInput {
    std::string name;
    int parameter = -1;
    bool has_default = false;
    ParameterValue default_value{};
    std::string default_text;  ///< what a text default holds
};

/// Never freed: torch and XLA cannot unregister a function.
struct OperatorDefinition {
    std::string name;      ///< "geo::distance"
    std::string space;     ///< "geo"
    std::string function;  ///< "distance"
    const OverloadFacts* overloads = nullptr;
    int overload_count = 0;
    const OverloadFacts* device_overloads = nullptr;  ///< of .cuda<>(); NULL if there are none
    int device_overload_count = 0;
    OperatorInput inputs[max_parameters];
    int input_count = 0;
    int outs[max_parameters];  ///< the parameters that are results
    int out_count = 0;
    std::string out_names[max_parameters];  ///< "out", or "out[1]" where there are several
    /// The parameter whose sizes and dtype a result has, if its own type does not say; -1: none.
    int like[max_parameters];
    int first_tensor = -1;  ///< the first tensor parameter that is an input
    bool batch = false;     ///< leading dimensions broadcast
    bool writes_inputs = false;
    bool offered_to_torch = false;  ///< torch.ops has it, or cannot have it
    OperatorEntries entries;
    OperatorDefinition* gradient = nullptr;
    int gradient_of[max_parameters];  ///< of a gradient: by result, the input of the operator that it belongs to

    const ParameterFacts* parameters() const noexcept { return overloads[0].parameters; }
    int parameter_count() const noexcept { return overloads[0].count; }
    bool has_device() const noexcept { return device_overloads != nullptr; }
    /// The name of a parameter, for an error.
    const char* name_of(int parameter) const noexcept {
        for (int i = 0; i < input_count; ++i)
            if (inputs[i].parameter == parameter) return inputs[i].name.c_str();
        for (int i = 0; i < out_count; ++i)
            if (outs[i] == parameter) return out_names[i].c_str();
        return "";
    }
    /// The integer argument that a size is named after; -1 where there is none.
    int integer_named(std::string_view size) const noexcept {
        for (int i = 0; i < input_count; ++i)
            if (inputs[i].name == size && parameters()[inputs[i].parameter].kind == ParameterKind::integer)
                return inputs[i].parameter;
        return -1;
    }
};

[[noreturn]] ISTHMUS_COLD inline void refuse_operator(const std::string& operator_name, Message why) {
    throw Error(ErrorCode::bad_argument, ErrorKind::value, concat({"operator '", operator_name, "': ", why}));
}

/// Sorts the parameters into inputs and results.
void lay_out_operator(OperatorDefinition& op, const char* qualified, const OverloadFacts* overloads, int count);
/// The kernel of an operator in torch's dispatcher (isthmus/python/operator/torch.h).
void run_in_torch(const OperatorDefinition& op, std::uint64_t* stack, bool batched);
/// The same for a call frame of XLA; the result is NULL or XLA's error (isthmus/python/operator/jax.h). `on_device`: the
/// operands are a GPU's.
void* run_for_xla(const OperatorDefinition& op, void* frame, bool on_device) noexcept;
/// Throws Error if the names or sizes do not make an operator. All inputs must have their names.
void check_operator(OperatorDefinition& op);

}  // namespace detail

ISTHMUS_END
