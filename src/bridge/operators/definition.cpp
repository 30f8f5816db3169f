// OperatorDefinition: one operator as every back end knows it, from its facts and the names that its author gave.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/operator/definition.h>

ISTHMUS_BEGIN

namespace detail {

void lay_out_operator(OperatorDefinition& op, const char* qualified, const OverloadFacts* overloads, int count) {
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

void check_operator(OperatorDefinition& op) {
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

}  // namespace detail

ISTHMUS_END
