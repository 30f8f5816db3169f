// How an operator is made of its functions and the names that its author gave, checked, and put into a module.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <memory>

#include "../runtime/errors.h"
#include "../runtime/names.h"
#include "formula.h"

ISTHMUS_BEGIN

namespace detail {

OperatorDefinition::OperatorDefinition(const OperatorFunctions& functions_, const char* suffix)
    : name(functions_.name), functions(functions_), overloads(functions_.overloads), overload_count(functions_.count) {
    name += suffix;
    const std::size_t colon = name.find("::");
    space = colon == std::string::npos ? std::string() : name.substr(0, colon);
    function = name.substr(colon == std::string::npos ? 0 : colon + 2);
    if (parameter_count() > max_parameters)  // a module that was compiled with a later version
        refuse({"it has ", parameter_count(), " parameters; expected at most ", max_parameters});
    for (int i = 0; i < parameter_count(); ++i) {
        const ParameterFacts& facts = parameters()[i];
        if (facts.kind == ParameterKind::out) {
            outs[out_count++] = i;
            has_bounds = has_bounds || has_bound(*facts.requirement);
            continue;
        }
        inputs[input_count++].parameter = i;
        if (facts.is_data() && first_tensor < 0) first_tensor = i;
        writes_inputs = writes_inputs || facts.is_written();
        has_lists = has_lists || facts.is_list();
        for (int o = 0; facts.requirement != nullptr && o < overload_count; ++o)
            packs_inputs = packs_inputs || overloads[o].parameters[i].requirement->converts == Converts::orders;
        has_runs = has_runs || (facts.requirement != nullptr && detail::has_runs(*facts.requirement));
        has_formulas = has_formulas || (facts.is_tensor() && has_formula(*facts.requirement));
    }
    if (out_count > max_results) refuse({out_count, " results are more than ", max_results});
    for (int i = 0; i < out_count; ++i) {
        out_names[i] = out_count == 1 ? std::string("out") : concat({"out[", i, "]"});
        like[i] = first_tensor;
        gradient_of[i] = -1;
    }
}

const char* OperatorDefinition::name_of(int parameter) const noexcept {
    for (int i = 0; i < input_count; ++i)
        if (inputs[i].parameter == parameter) return inputs[i].name.c_str();
    for (int i = 0; i < out_count; ++i)
        if (outs[i] == parameter) return out_names[i].c_str();
    return "";
}
int OperatorDefinition::integer_named(std::string_view size) const noexcept {
    for (int i = 0; i < input_count; ++i)
        if (inputs[i].name == size && input_facts(i).kind == ParameterKind::integer && !input_facts(i).optional)
            return inputs[i].parameter;
    return -1;
}
ISTHMUS_COLD void OperatorDefinition::refuse(Message why) const {
    throw make_error(ErrorCode::bad_argument, ErrorKind::value, {"operator '", name, "': ", why});
}
ISTHMUS_COLD Error OperatorDefinition::argument_error(ErrorCode code, const std::string& argument, Message what) const {
    return make_error(code, ErrorKind::value, {call_prefix(function.c_str(), argument.c_str()), what});
}

namespace {

void set_default(const OperatorDefinition& op, OperatorInput& input, const InputSpec& spec) {
    const ParameterKind kind = op.parameters()[input.parameter].kind;
    input.has_default = true;
    input.default_value = spec.value;
    if (kind == ParameterKind::number && spec.kind == ParameterKind::integer)
        input.default_value.number = static_cast<double>(spec.value.integer);
    else if (kind != spec.kind)
        op.refuse({"the default of argument '", input.name, "' is of another type than the argument"});
    if (op.parameters()[input.parameter].optional) input.default_value.set_scalar_given();
    if (kind != ParameterKind::text) return;
    input.default_text.assign(spec.value.text.data, spec.value.text.size);
    input.default_value.text = {input.default_text.data(), input.default_text.size()};
}

/// Whether Python, torch's schemas and C++ all accept the name.
bool is_operator_word(std::string_view word) noexcept {
    if (word.empty() || (word[0] >= '0' && word[0] <= '9')) return false;
    for (const char c : word)
        if (!is_name_char(c)) return false;
    return true;
}

/// Whether a required input has a size of this name.
bool is_size_given(const OperatorDefinition& op, const OverloadFacts& overload, std::string_view name,
                   bool is_of_run = false) {
    for (int i = 0; i < op.input_count; ++i) {
        const Requirement* r = overload.parameters[op.inputs[i].parameter].requirement;
        for (int d = 0; r != nullptr && d < spec_count(*r); ++d)
            if (r->sizes[d].name == name && is_run(r->sizes[d]) == is_of_run) return true;
    }
    return !is_of_run && op.integer_named(name) >= 0;
}

/// `what`: "result" or "argument".
void check_sizes_given(const OperatorDefinition& op, const OverloadFacts& overload, const Requirement& r,
                       const char* what, const std::string& name) {
    for (int d = 0; d < spec_count(r); ++d) {
        if (is_run(r.sizes[d])) {
            if (is_size_given(op, overload, r.sizes[d].name, true)) continue;
            op.refuse({what, " '", name, "' has the dimensions ", words_of_size(r.sizes[d]), ", which no input has"});
        }
        const std::string_view formula = formula_of(r.sizes[d]);
        const std::string_view text = formula.empty() ? std::string_view(r.sizes[d].name) : formula;
        (void)each_name(text, [&](std::string_view size) {
            if (is_size_given(op, overload, size)) return true;
            op.refuse({what, " '", name, "' has the size ", size,
                       ", which no input has; expected a name of an input's sizes, or of an integer input"});
        });
    }
}

void check_result(const OperatorDefinition& op, const OverloadFacts& overload, int out) {
    const Requirement& r = *overload.parameters[op.outs[out]].requirement;
    const std::string& name = op.out_names[out];
    if (op.like[out] == op.first_tensor) check_sizes_given(op, overload, r, "result", name);
    if (r.size_count != -1 || r.max_rank == 0) return;
    const int like = op.like[out];
    if (like < 0)
        op.refuse({"result '", name, "' is ", r.words, ", and there is no tensor argument whose sizes it could have"});
    const Requirement& source = *overload.parameters[like].requirement;
    if (r.size_count < 0 && r.max_rank != 0 && r.min_rank == r.max_rank && source.min_rank != r.min_rank)
        op.refuse({"result '", name, "' is ", r.words, ", which has the sizes of argument '", op.name_of(like), "', ",
                   source.words, "; write its sizes"});
}

/// Throws Error if the names or sizes do not make an operator. All inputs must have their names.
void check_operator(const OperatorDefinition& op) {
    if (!is_operator_word(op.space) || !is_operator_word(op.function))
        op.refuse("expected a name like \"namespace::function\"");
    for (int i = 0; i < op.input_count; ++i) {
        const std::string& name = op.inputs[i].name;
        if (!is_operator_word(name) || name == "out")
            op.refuse({"found the argument name '", name, "'; expected an identifier other than 'out'"});
        for (int j = 0; j < i; ++j)
            if (op.inputs[j].name == name) op.refuse({"two arguments are named '", name, "'"});
    }
    for (int o = 0; o < op.overload_count; ++o) {
        for (int i = 0; i < op.out_count; ++i) check_result(op, op.overloads[o], i);
        if (op.has_runs) check_runs(op, op.overloads[o]);
        for (int i = 0; op.has_formulas && i < op.input_count; ++i)
            if (const Requirement* r = op.overloads[o].parameters[op.inputs[i].parameter].requirement)
                check_sizes_given(op, op.overloads[o], *r, "argument", op.inputs[i].name);
    }
    for (int i = 0; op.batch && i < op.parameter_count(); ++i) {
        const Requirement* r = op.parameters()[i].requirement;
        if (r != nullptr && r->min_rank != r->max_rank)
            op.refuse({"leading dimensions broadcast only where the rank is fixed, and argument '", op.name_of(i),
                       "' is ", r->words});
    }
    int randoms = 0;
    for (int i = 0; i < op.input_count; ++i) randoms += op.input_facts(i).kind == ParameterKind::random ? 1 : 0;
    if (randoms > 1) op.refuse({"it has ", randoms, " arguments of isthmus::Random; expected one"});
    if (op.batch && op.has_bounds)
        op.refuse("leading dimensions do not broadcast if a result says how many rows it has (\"<=n\")");
    if (op.batch && op.has_lists) op.refuse("leading dimensions do not broadcast if an argument is a list of tensors");
    for (int i = 0; i < op.input_count; ++i)
        if (op.input_facts(i).is_list() && is_for_operators(*op.input_facts(i).requirement))
            op.refuse({"argument '", op.inputs[i].name,
                       "' is a list of tensors with a size by formula, or a run of dimensions; expected names"});
    if (op.first_tensor < 0 && !op.has_lists)
        op.refuse("it has no tensor argument; expected at least one, since a call belongs to its framework");
}

void name_inputs(OperatorDefinition& op, std::initializer_list<InputSpec> specs) {
    if (static_cast<int>(specs.size()) != op.input_count)
        op.refuse({"found ", specs.size(), " argument names; expected ", op.input_count, ", one for each input"});
    OperatorInput* input = op.inputs;
    for (const InputSpec& spec : specs) {
        input->name = spec.name;
        if (spec.kind != ParameterKind::tensor) set_default(op, *input, spec);
        ++input;
    }
    for (int i = 0; i < op.out_count; ++i)
        if (op.parameters()[op.outs[i]].optional)
            op.refuse({"result '", op.out_names[i], "' may be absent; expected a result of every call, since only a ",
                       "gradient's is left out"});
    finish_operator(op);
}

/// Puts the operator into the module and into the list of all.
PyObject* publish(OperatorDefinition& op, PyObject* module, const char* doc) {
    Ref object(make_operator_object(&op));
    const Ref list = object ? all_operators() : Ref();
    const Ref dict(list ? PyObject_GenericGetDict(object.get(), nullptr) : nullptr);
    const bool good =
        dict &&
        put(dict.get(), "__module__", PyModule_Check(module) ? PyModule_GetNameObject(module) : Py_NewRef(Py_None)) &&
        put(dict.get(), "__doc__", PyUnicode_FromString(doc)) && PyList_Append(list.get(), object.get()) == 0 &&
        PyObject_SetAttrString(module, op.function.c_str(), object.get()) == 0;
    return good ? object.release() : nullptr;
}

/// The first parameter whose tensors differ from those of the host function; -1: none. Device and order of the elements
/// may differ; the sizes and dtypes of the results follow one rule, so they may not.
int first_difference(const OverloadFacts& device, const OverloadFacts& host) {
    const auto same_sizes = [](const Requirement& a, const Requirement& b) {
        if (a.size_count != b.size_count) return false;
        for (int d = 0; d < spec_count(a); ++d)
            if (a.sizes[d].size != b.sizes[d].size || a.sizes[d].name != b.sizes[d].name ||
                a.sizes[d].more != b.sizes[d].more || formula_of(a.sizes[d]) != formula_of(b.sizes[d]))
                return false;
        return true;
    };
    for (int i = 0; i < host.count; ++i) {
        if (host.parameters[i].requirement == nullptr) continue;
        const Requirement &a = *device.parameters[i].requirement, &b = *host.parameters[i].requirement;
        const bool same_dtype = a.accepts == b.accepts && (a.accepts != nullptr || a.dtype == b.dtype);
        if (!same_dtype || a.min_rank != b.min_rank || a.max_rank != b.max_rank || !same_sizes(a, b)) return i;
    }
    return -1;
}

/// Adds the functions of a device. Throws Error if their tensors differ from those of the host's functions.
void join_device(OperatorDefinition& op, const OverloadFacts* overloads, int count) {
    for (int d = 0; d < count; ++d) {
        if (!is_device_form(overloads[d], op.functions.overloads[0]))
            op.refuse("its device function wants the parameters of the host's function, then an isthmus::Stream");
        int found = -2, nearest = 0;
        for (int o = 0; o < op.overload_count && found != -1; ++o) {
            const int difference = first_difference(overloads[d], op.functions.overloads[o]);
            if (difference != -1 && difference <= found) continue;
            found = difference;
            nearest = o;
        }
        if (found == -1) continue;
        op.refuse({"its device function has '", op.name_of(found), "' as ",
                   overloads[d].parameters[found].requirement->words, "; expected the dtype and sizes of ",
                   op.overloads[nearest].parameters[found].requirement->words});
    }
    op.device_overloads = op.with_hidden_inputs(overloads, count);
    op.device_overload_count = count;
    op.device_sources = find_dtype_sources(op, op.device_overloads, count);
}

}  // namespace

void finish_operator(OperatorDefinition& op) {
    check_operator(op);
    op.sources = find_dtype_sources(op, op.overloads, op.overload_count);
}

/// Runs one step of the registration. `f` returns false with a Python exception set, or throws.
template <class F>
void OperatorRegistration::attempt(F&& f) {
    if (!sets_error_) {
        if (!f()) throw error_from_exception(ErrorCode::bad_argument, nullptr, "registering an operator");
        return;
    }
    bool good = false;
    raise_captured("op", capture([&] { good = f(); }));
    if (!good) Py_CLEAR(object_);
}

OperatorRegistration::OperatorRegistration(const OperatorFunctions& functions, PyObject* module, bool sets_error,
                                           std::initializer_list<InputSpec> inputs, const OperatorOptions& options)
    : sets_error_(sets_error) {
    attempt([&] {
        auto made = std::make_unique<OperatorDefinition>(functions);
        made->batch = options.batch;
        name_inputs(*made, inputs);
        op_ = *functions.definition = made.release();
        object_ = publish(*op_, module, options.doc);
        return object_ != nullptr;
    });
}

OperatorRegistration::~OperatorRegistration() {
    if (object_ == nullptr) return;
    surviving_exit([&] {
        const PendingException pending;
        if (loaded_module("torch")) offer_to_torch(*op_, object_);  // a failure is reported by the first use
        // A destructor cannot raise: Ctrl-C comes again as soon as Python code runs.
        if (is_interrupted() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) PyErr_SetInterrupt();
        PyErr_Clear();
    });
    Py_DECREF(object_);
}

void OperatorRegistration::add_gradient(const OperatorFunctions& functions) { extend({.functions = &functions}); }

void OperatorRegistration::extend(const OperatorExtension& more) {
    if (object_ == nullptr) return;
    attempt([&] {
        if (more.kind == OperatorExtension::Kind::autocast) {
            op_->set_autocast(more.dtype);
            return true;
        }
        if (more.kind == OperatorExtension::Kind::jvp) {
            add_jvp_to(*op_, *more.functions);
            return true;
        }
        OperatorDefinition* op = op_;  // a second gradient() is that of the first one
        while (op->gradient != nullptr) op = op->gradient;
        add_gradient_to(*op, more);
        return true;
    });
}

void OperatorRegistration::add_device(const OverloadFacts* overloads, int count, bool of_gradient) {
    if (object_ == nullptr) return;
    attempt([&] {
        OperatorDefinition* op = of_gradient ? op_->gradient : op_;
        if (op == nullptr) op_->refuse("it has no gradient that could have a device function");
        join_device(*op, overloads, count);
        return true;
    });
}

}  // namespace detail

ISTHMUS_END
