// The gradient of an operator: what it takes and what it is of, as its author says or by default, checked and
// completed. SPDX-License-Identifier: Apache-2.0
#include "definition.h"  // Python.h must come before any standard header

#include <isthmus/core/view/constraints.h>
#include "../runtime/errors.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// Whether a gradient with respect to such a tensor exists.
bool is_floating(const Requirement& r) noexcept {
    for (const DType dtype : {float16, bfloat16, float32, float64, complex32, complex64, complex128})
        if (r.accepts != nullptr && r.accepts(dtype)) return true;
    const auto code = r.dtype.code;
    return r.accepts == nullptr && (code == kDLFloat || code == kDLBfloat || code == kDLComplex);
}

/// The same of an input, by any of the operator's functions.
bool is_floating(const OperatorDefinition& op, int input) noexcept {
    const ParameterFacts& facts = op.input_facts(input);
    for (int o = 0; o < op.overload_count && facts.is_data(); ++o)
        if (is_floating(*op.overloads[o].parameters[op.inputs[input].parameter].requirement)) return true;
    return false;
}

/// Inputs that the C++ function has a parameter for.
int visible_inputs(const OperatorDefinition& op) noexcept {
    return op.input_count - static_cast<int>(op.hidden.size());
}

using SourceKind = GradientSource::Kind;

/// Puts together what the gradient of `op` takes and gives. Throws Error.
class GradientPlanner {
public:
    explicit GradientPlanner(const OperatorDefinition& op) : op_(op) {}

    GradientPlan plan(const GradientOptions& options) const {
        if (op_.writes_inputs) refuse("cannot be, since it writes an argument in place");
        GradientPlan plan;
        for (const char* name : options.takes) plan.sources.push_back(source_of(name));
        for (int i = 0; options.takes.size() == 0 && i < op_.out_count; ++i)
            plan.sources.push_back({SourceKind::grad, i});
        for (int i = 0; options.takes.size() == 0 && i < visible_inputs(op_); ++i)
            plan.sources.push_back({SourceKind::input, i});
        for (const char* name : options.of) plan.of.push_back(argument_of(name));
        for (int i = 0; options.of.size() == 0 && i < op_.input_count; ++i)
            if (is_floating(op_, i)) plan.of.push_back(i);
        for (std::size_t i = 0; i < plan.of.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (plan.of[i] == plan.of[j]) refuse({"is of '", op_.inputs[plan.of[i]].name, "' twice"});
        return plan;
    }
    /// Names of a gradient's inputs, which are identifiers: "grad_out", "grad_out_1", "result", "x", "x_sizes".
    std::string name_of(const GradientSource& source) const {
        switch (source.kind) {
            case SourceKind::grad:
                return concat(
                    {"grad_", is_of_argument(source.index) ? word_of(source.index) : numbered("out", source)});
            case SourceKind::result:
                return is_of_argument(source.index) ? word_of(source.index) : numbered("result", source);
            case SourceKind::sizes:
                return op_.inputs[source.index].name + "_sizes";
            case SourceKind::size:
                return source.size;
            case SourceKind::needed:
                return "needed";
            default:
                return op_.inputs[source.index].name;
        }
    }
    [[noreturn]] void refuse(Message why) const { op_.refuse({"its gradient ", why}); }

private:
    bool is_of_argument(int out) const noexcept { return op_.gradient_of[out] >= 0; }
    /// "out", "out[1]"; of a gradient "grad_x".
    std::string word_of(int out) const {
        return is_of_argument(out) ? "grad_" + op_.gradient_of_names[out] : op_.out_names[out];
    }
    std::string numbered(const char* word, const GradientSource& source) const {
        return op_.out_count == 1 ? std::string(word) : concat({word, "_", source.index});
    }
    int input_named(std::string_view name) const noexcept {
        for (int i = 0; i < visible_inputs(op_); ++i)
            if (op_.inputs[i].name == name) return i;
        return -1;
    }
    bool has_size(std::string_view name) const noexcept {
        for (int i = 0; i < visible_inputs(op_); ++i) {
            const Requirement* r = op_.input_facts(i).requirement;
            for (int d = 0; r != nullptr && d < r->size_count; ++d)
                if (r->sizes[d].name == name && r->sizes[d].more == 0) return true;
        }
        return false;
    }
    /// The result that "grad_out" is the gradient of; -1 if there are several.
    int only_floating_result() const noexcept {
        int found = -1;
        for (int i = 0; i < op_.out_count; ++i) {
            if (!is_floating(*op_.parameters()[op_.outs[i]].requirement)) continue;
            if (found >= 0) return -1;
            found = i;
        }
        return found;
    }
    GradientSource source_of(const char* name) const {
        const std::string_view word = name;
        if (const int input = input_named(word); input >= 0) return {SourceKind::input, input};
        if (const int only = only_floating_result(); word == "grad_out" && only >= 0) return {SourceKind::grad, only};
        for (int i = 0; i < op_.out_count; ++i) {
            if (word == word_of(i)) return {SourceKind::result, i};
            if (word == "grad_" + word_of(i) || word == name_of({SourceKind::grad, i})) return {SourceKind::grad, i};
        }
        if (has_size(word)) return {SourceKind::size, -1, std::string(word)};
        refuse({"takes '", word, "'; expected ", choices(), " or the name of an argument or of a size of one"});
    }
    /// "'grad_out', 'out'", of several "'grad_out[0]', …, 'out[1]'".
    std::string choices() const {
        std::string text;
        for (int i = 0; i < op_.out_count; ++i) text += concat({i == 0 ? "" : ", ", "'grad_", word_of(i), "'"});
        for (int i = 0; i < op_.out_count; ++i) text += concat({", '", word_of(i), "'"});
        return text;
    }
    int argument_of(const char* name) const {
        const int input = input_named(name);
        if (input < 0) refuse({"is of '", name, "', which is not an argument of the operator"});
        if (!is_floating(op_, input))
            refuse({"is of '", name, "', which is ",
                    op_.input_facts(input).is_tensor() ? "not of floating-point numbers" : "not a tensor"});
        return input;
    }

    const OperatorDefinition& op_;
};

/// Makes `gradient`, whose inputs are those of the plan, that of an operator. Throws Error.
class GradientMaker {
public:
    GradientMaker(const OperatorDefinition& op, GradientPlan& plan, OperatorDefinition& gradient)
        : op_(op), plan_(plan), gradient_(gradient), planner_(op) {}

    void make() {
        const int takes = static_cast<int>(plan_.sources.size()), gives = static_cast<int>(plan_.of.size());
        if (gradient_.input_count != takes)
            planner_.refuse({"takes ", gradient_.input_count, " inputs; expected ", takes, ": ", words_of_inputs()});
        for (int i = 0; i < takes; ++i) name_input(i);
        if (gradient_.out_count != gives)
            planner_.refuse(
                {"has ", gradient_.out_count, " results; expected ", gives, ", one for each of ", words_of_results()});
        bool some_optional = false;
        for (int out = 0; out < gives; ++out) {
            name_result(out);
            some_optional = some_optional || gradient_.parameters()[gradient_.outs[out]].optional;
        }
        if (some_optional) add_hidden({-1, false}, {SourceKind::needed});
        complete();
    }

private:
    std::string words_of_inputs() const {
        std::string text;
        for (const GradientSource& source : plan_.sources)
            text += concat({text.empty() ? "" : ", ", planner_.name_of(source)});
        return text;
    }
    std::string words_of_results() const {
        std::string text;
        for (const int input : plan_.of) text += concat({text.empty() ? "" : ", ", op_.inputs[input].name});
        return text;
    }
    void name_input(int i) {
        const GradientSource& source = plan_.sources[static_cast<std::size_t>(i)];
        OperatorInput& input = gradient_.inputs[i];
        input.name = planner_.name_of(source);
        const ParameterFacts& facts = gradient_.parameters()[input.parameter];
        const ParameterKind expected = source.kind == SourceKind::input  ? op_.input_facts(source.index).kind
                                       : source.kind == SourceKind::size ? ParameterKind::integer
                                                                         : ParameterKind::tensor;
        if (facts.kind == expected) return;
        if (source.kind == SourceKind::grad)
            planner_.refuse(
                {"takes a scalar for the gradient of result '", op_.out_names[source.index], "'; expected a tensor"});
        planner_.refuse({"takes argument '", input.name, "' as another kind"});
    }
    void name_result(int out) {
        const int input = plan_.of[static_cast<std::size_t>(out)];
        gradient_.gradient_of[out] = input;
        gradient_.gradient_of_names[out] = op_.inputs[input].name;
        gradient_.out_names[out] = concat({"gradient of '", op_.inputs[input].name, "'"});
        for (std::size_t i = 0; i < plan_.sources.size(); ++i)
            if (plan_.sources[i].kind == SourceKind::input && plan_.sources[i].index == input)
                return void(gradient_.like[out] = gradient_.inputs[i].parameter);
        gradient_.like[out] = add_hidden({out, op_.input_facts(input).optional}, {SourceKind::sizes, input});
    }
    /// The parameter of a hidden input, behind those of the function and a Stream.
    int add_hidden(const HiddenInput& hidden, const GradientSource& source) {
        const int parameter = gradient_.function_parameter_count() + 1 + static_cast<int>(gradient_.hidden.size());
        if (parameter >= max_parameters)
            planner_.refuse({"has more than ", max_parameters, " parameters with the sizes that it needs"});
        OperatorInput& input = gradient_.inputs[gradient_.input_count++];
        input.name = planner_.name_of(source);
        input.parameter = parameter;
        if (source.kind == SourceKind::needed) {
            input.has_default = true;
            input.default_value.integer = -1;
            gradient_.needed_parameter = parameter;
        } else if (gradient_.first_tensor < 0) {
            gradient_.first_tensor = parameter;
        }
        gradient_.hidden.push_back(hidden);
        plan_.sources.push_back(source);
        return parameter;
    }
    void complete() {
        gradient_.overloads = gradient_.with_hidden_inputs(gradient_.overloads, gradient_.overload_count);
        gradient_.batch = op_.batch;
        gradient_.has_formulas = op_.has_formulas || gradient_.has_formulas;
        finish_operator(gradient_);
    }

    const OperatorDefinition& op_;
    GradientPlan& plan_;
    OperatorDefinition& gradient_;
    GradientPlanner planner_;
};

/// What the sizes of a gradient's result are checked against: its dimensions, of any dtype and in any memory.
Requirement requirement_of_sizes(const Requirement& result) {
    Requirement r = result;
    if (r.accepts == nullptr) r.accepts = any_dtype::accepts;
    r.writable = false;
    r.order = Order::any;
    r.alignment = 1;
    r.device_type = any_memory;
    r.allow_grad = true;
    return r;
}

}  // namespace

const OverloadFacts* OperatorDefinition::with_hidden_inputs(const OverloadFacts* functions_, int count) {
    if (hidden.empty()) return functions_;
    const int own = function_parameter_count(), whole = own + 1 + static_cast<int>(hidden.size());
    const auto rows = static_cast<std::size_t>(count), columns = static_cast<std::size_t>(whole);
    ExtendedOverloads& made = extended.emplace_back();
    made.overloads = std::make_unique<OverloadFacts[]>(rows);
    made.parameters = std::make_unique<ParameterFacts[]>(rows * columns);
    made.requirements = std::make_unique<Requirement[]>(rows * hidden.size());
    for (std::size_t row = 0; row < rows; ++row) {
        ParameterFacts* facts = made.parameters.get() + row * columns;
        for (int i = 0; i < own; ++i) facts[i] = functions_[row].parameters[i];
        facts[own].kind = ParameterKind::stream;
        for (std::size_t h = 0; h < hidden.size(); ++h) {
            ParameterFacts& at = facts[static_cast<std::size_t>(own) + 1 + h];
            at.optional = hidden[h].optional;
            at.kind = hidden[h].out < 0 ? ParameterKind::integer : ParameterKind::sizes;
            if (hidden[h].out < 0) continue;
            Requirement& r = made.requirements[row * hidden.size() + h];
            r = requirement_of_sizes(*facts[outs[hidden[h].out]].requirement);
            at.requirement = &r;
        }
        made.overloads[row] = {facts, whole, functions_[row].call};
    }
    return made.overloads.get();
}

void OperatorDefinition::set_autocast(DType dtype) {
    if (dtype != float16 && dtype != bfloat16 && dtype != float32 && dtype != float64)
        refuse({"found autocast to ", dtype, "; expected a floating-point dtype of torch"});
    autocast = dtype;
}

void add_gradient_to(OperatorDefinition& op, const OperatorExtension& extension) {
    GradientPlan plan = GradientPlanner(op).plan(extension.options);
    if (extension.named != nullptr) {
        if (extension.options.takes.size() == 0)
            op.refuse(
                {"its gradient is another operator, ", extension.named, "; expected .takes to name its arguments"});
        plan.named = extension.named;
        op.plan = std::move(plan);
        return;
    }
    const std::string suffix = op.name.substr(std::string_view(op.functions.name).size()) + "_gradient";
    auto made = std::make_unique<OperatorDefinition>(*extension.functions, suffix.c_str());
    GradientMaker(op, plan, *made).make();
    op.plan = std::move(plan);
    op.gradient = *extension.functions->definition = made.release();
}

/// The inputs of a Jacobian-vector product: "tangent_x" for each floating-point input, then the inputs.
static void name_inputs_of_jvp(const OperatorDefinition& op, OperatorDefinition& jvp) {
    const int tangents = static_cast<int>(op.tangents_of.size());
    const auto refuse = [&](Message why) { op.refuse({"its jvp ", why}); };
    if (jvp.input_count != tangents + op.input_count)
        refuse({"takes ", jvp.input_count, " inputs; expected ", tangents + op.input_count,
                ": a tangent for each floating-point tensor input, then the inputs"});
    for (int i = 0; i < jvp.input_count; ++i) {
        const int of = i < tangents ? op.tangents_of[static_cast<std::size_t>(i)] : i - tangents;
        const ParameterFacts &found = jvp.input_facts(i), &expected = op.input_facts(of);
        jvp.inputs[i].name = (i < tangents ? "tangent_" : "") + op.inputs[of].name;
        const bool is_as_optional =
            i < tangents ? found.optional || !expected.optional : found.optional == expected.optional;
        if (found.kind != expected.kind) refuse({"takes '", jvp.inputs[i].name, "' as another kind"});
        if (!is_as_optional)
            refuse({"takes '", jvp.inputs[i].name, "', which ", expected.optional ? "may" : "cannot", " be None"});
    }
}

void add_jvp_to(OperatorDefinition& op, const OperatorFunctions& functions) {
    if (op.writes_inputs) op.refuse("its jvp cannot be, since it writes an argument in place");
    for (int i = 0; i < op.input_count; ++i)
        if (is_floating(op, i)) op.tangents_of.push_back(i);
    for (int i = 0; i < op.out_count; ++i)
        if (is_floating(*op.parameters()[op.outs[i]].requirement)) op.tangents.push_back(i);
    auto made = std::make_unique<OperatorDefinition>(functions, "_jvp");
    name_inputs_of_jvp(op, *made);
    const int results = static_cast<int>(op.tangents.size());
    if (made->out_count != results)
        op.refuse({"its jvp has ", made->out_count, " results; expected ", results,
                   ", a tangent for each floating-point result"});
    for (int i = 0; i < results; ++i)
        made->out_names[i] = concat({"tangent of '", op.out_names[op.tangents[static_cast<std::size_t>(i)]], "'"});
    made->batch = op.batch;
    made->is_jvp = true;
    finish_operator(*made);
    op.jvp = *functions.definition = made.release();
}

}  // namespace detail

ISTHMUS_END
