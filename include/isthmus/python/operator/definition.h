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
ISTHMUS_API void lay_out_operator(OperatorDefinition& op, const char* qualified, const OverloadFacts* overloads, int count);
/// The kernel of an operator in torch's dispatcher (isthmus/python/operator/torch.h).
ISTHMUS_API void run_in_torch(const OperatorDefinition& op, std::uint64_t* stack, bool batched);
/// The same for a call frame of XLA; the result is NULL or XLA's error (isthmus/python/operator/jax.h). `on_device`: the
/// operands are a GPU's.
ISTHMUS_API void* run_for_xla(const OperatorDefinition& op, void* frame, bool on_device) noexcept;
/// Throws Error if the names or sizes do not make an operator. All inputs must have their names.
ISTHMUS_API void check_operator(OperatorDefinition& op);

#if ISTHMUS_DEFINE

ISTHMUS_API void lay_out_operator(OperatorDefinition& op, const char* qualified, const OverloadFacts* overloads, int count) {
    op.name = qualified;
    const std::size_t colon = op.name.find("::");
    op.space = colon == std::string::npos ? std::string() : op.name.substr(0, colon);
    op.function = op.name.substr(colon == std::string::npos ? 0 : colon + 2);
    op.overloads = overloads;
    op.overload_count = count;
    for (int i = 0; i < overloads[0].count; ++i) {
        const ParameterFacts& facts = overloads[0].parameters[i];
        if (facts.is_out()) {
            op.outs[op.out_count++] = i;
            continue;
        }
        op.inputs[op.input_count++].parameter = i;
        if (facts.is_tensor() && op.first_tensor < 0) op.first_tensor = i;
        if (facts.kind == ParameterKind::in_out) op.writes_inputs = true;
    }
    if (op.out_count > max_results) refuse_operator(op.name, {op.out_count, " results are more than ", max_results});
    for (int i = 0; i < op.out_count; ++i) {
        op.out_names[i] = op.out_count == 1 ? std::string("out") : concat({"out[", i, "]"});
        op.like[i] = op.first_tensor;
        op.gradient_of[i] = -1;
    }
}

/// Whether Python, torch's schemas and C++ all accept the name.
inline bool is_operator_word(std::string_view word) noexcept {
    if (word.empty() || (word[0] >= '0' && word[0] <= '9')) return false;
    for (const char c : word)
        if (!is_name_char(c)) return false;
    return true;
}

/// Whether a required input has a size of this name.
inline bool is_size_given(const OperatorDefinition& op, const OverloadFacts& overload, std::string_view name) {
    for (int i = 0; i < op.input_count; ++i) {
        const ParameterFacts& facts = overload.parameters[op.inputs[i].parameter];
        if (!facts.is_tensor()) continue;
        for (int d = 0; d < facts.requirement->size_count; ++d)
            if (facts.requirement->sizes[d].name == name) return true;
    }
    return op.integer_named(name) >= 0;
}

inline void check_operator_result(const OperatorDefinition& op, const OverloadFacts& overload, int out) {
    const Requirement& r = *overload.parameters[op.outs[out]].requirement;
    for (int d = 0; d < r.size_count; ++d)
        if (!r.sizes[d].name.empty() && op.like[out] == op.first_tensor && !is_size_given(op, overload, r.sizes[d].name))
            refuse_operator(op.name, {"result '", op.out_names[out], "' has the size ", r.sizes[d].name,
                                      ", which no input has; wanted a name of an input's sizes, or of an integer input"});
    if ((r.size_count >= 0 || r.most_rank == 0) && r.accepts == nullptr) return;
    const int like = op.like[out];
    if (like < 0)
        refuse_operator(op.name, {"result '", op.out_names[out], "' is ", r.words,
                                  ", and there is no tensor argument whose sizes and dtype it could have"});
    const Requirement& source = *overload.parameters[like].requirement;
    if (r.size_count < 0 && r.most_rank != 0 && r.least_rank == r.most_rank && source.least_rank != r.least_rank)
        refuse_operator(op.name, {"result '", op.out_names[out], "' is ", r.words, ", which has the sizes of argument '",
                                  op.name_of(like), "', ", source.words, "; write its sizes"});
}

ISTHMUS_API void check_operator(OperatorDefinition& op) {
    if (!is_operator_word(op.space) || !is_operator_word(op.function))
        refuse_operator(op.name, "wanted a name like \"namespace::function\"");
    for (int i = 0; i < op.input_count; ++i) {
        const std::string& name = op.inputs[i].name;
        if (!is_operator_word(name) || name == "out")
            refuse_operator(op.name, {"found the argument name '", name, "'; wanted an identifier other than 'out'"});
        for (int j = 0; j < i; ++j)
            if (op.inputs[j].name == name) refuse_operator(op.name, {"two arguments are named '", name, "'"});
    }
    for (int o = 0; o < op.overload_count; ++o)
        for (int i = 0; i < op.out_count; ++i) check_operator_result(op, op.overloads[o], i);
    if (!op.batch) return;
    for (int i = 0; i < op.parameter_count(); ++i) {
        const Requirement* r = op.parameters()[i].requirement;
        if (r != nullptr && r->least_rank != r->most_rank)
            refuse_operator(op.name, {"leading dimensions broadcast only where the rank is fixed, and argument '",
                                      op.name_of(i), "' is ", r->words});
    }
}
#endif

}  // namespace detail

ISTHMUS_END
