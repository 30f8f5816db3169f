// Registration: adds an operator to a module, and announces it to the frameworks that were already imported.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/operator/register.h>

#include "object.h"

ISTHMUS_BEGIN

namespace detail {

void throw_registration_error() {
    throw error_from_exception(ErrorCode::bad_argument, nullptr, "registering an operator");
}

ISTHMUS_COLD inline void set_operator_default(OperatorDefinition& op, OperatorInput& input, const SaidInput& said) {
    using Default = SaidInput::Default;
    const ParameterKind kind = op.parameters()[input.parameter].kind;
    input.has_default = true;
    input.default_value = said.value;
    if (kind == ParameterKind::number && said.kind == Default::integer)
        input.default_value.number = static_cast<double>(said.value.integer);
    else if (kind == ParameterKind::text && said.kind == Default::text)
        input.default_text = said.text;
    else if ((kind == ParameterKind::number) != (said.kind == Default::number) ||
             (kind == ParameterKind::integer) != (said.kind == Default::integer) ||
             (kind == ParameterKind::boolean) != (said.kind == Default::boolean) || kind == ParameterKind::text)
        refuse_operator(op.name, {"the default of argument '", input.name, "' is of another type than the argument"});
    if (kind == ParameterKind::text) input.default_value.text = {input.default_text.data(), input.default_text.size()};
}

void name_operator(OperatorDefinition& op, const SaidInput* said, int count) {
    if (count != op.input_count)
        refuse_operator(op.name, {"found ", count, " argument names; wanted ", op.input_count, ", one for each input"});
    for (int i = 0; i < count; ++i) {
        op.inputs[i].name = said[i].name;
        if (said[i].kind != SaidInput::Default::none) set_operator_default(op, op.inputs[i], said[i]);
    }
    check_operator(op);
}

/// Registers with torch now, if torch was imported before this module.
void offer_operator(OperatorDefinition& op, PyObject* object) noexcept {
    surviving_exit([&] {
        const PendingException pending;
        if (loaded_module("torch")) offer_to_torch(op, object);
        PyErr_Clear();
    });
}

PyObject* publish_operator(OperatorDefinition& op, PyObject* module, const char* doc) {
    Ref object(make_operator_object(&op));
    const Ref list = object ? all_operators() : Ref();
    if (!list) return nullptr;
    PyObject* dict = as_operator(object.get())->dict;
    const bool good = put(dict, "__module__", PyModule_Check(module) ? PyModule_GetNameObject(module) : Py_NewRef(Py_None)) &&
                      put(dict, "__doc__", PyUnicode_FromString(doc)) && PyList_Append(list.get(), object.get()) == 0 &&
                      PyObject_SetAttrString(module, op.function.c_str(), object.get()) == 0;
    return good ? object.release() : nullptr;
}

/// Whether a gradient with respect to such a tensor exists.
inline bool is_floating(const Requirement& r) noexcept {
    if (r.accepts == nullptr) return r.dtype.code == kDLFloat || r.dtype.code == kDLBfloat || r.dtype.code == kDLComplex;
    for (const DType dtype : {float16, bfloat16, float32, float64, complex32, complex64, complex128})
        if (r.accepts(dtype)) return true;
    return false;
}

void join_gradient(OperatorDefinition& op, OperatorDefinition& gradient) {
    const auto refuse = [&](Message why) { refuse_operator(op.name, {"its gradient ", why}); };
    if (op.writes_inputs) refuse("cannot be, since it writes an argument in place");
    const int inputs = op.out_count + op.input_count;
    if (gradient.input_count != inputs)
        refuse({"takes ", gradient.input_count, " inputs; wanted ", inputs, ": a gradient for each result, and the inputs"});
    for (int i = 0; i < op.out_count; ++i) {
        gradient.inputs[i].name = op.out_count == 1 ? std::string("grad_out") : concat({"grad_out_", i});
        if (gradient.parameters()[gradient.inputs[i].parameter].kind != ParameterKind::tensor)
            refuse({"takes a scalar where the gradient of result '", op.out_names[i], "' is wanted"});
    }
    for (int i = 0; i < op.input_count; ++i) {
        OperatorInput& input = gradient.inputs[op.out_count + i];
        const ParameterFacts& facts = op.parameters()[op.inputs[i].parameter];
        input.name = op.inputs[i].name;
        if (gradient.parameters()[input.parameter].kind != facts.kind)
            refuse({"takes argument '", input.name, "' as another kind"});
    }
    int out = 0;
    for (int i = 0; i < op.input_count; ++i) {
        const ParameterFacts& facts = op.parameters()[op.inputs[i].parameter];
        if (!facts.is_tensor() || !is_floating(*facts.requirement)) continue;
        if (out < gradient.out_count) {
            gradient.gradient_of[out] = i;
            gradient.like[out] = gradient.inputs[op.out_count + i].parameter;
            gradient.out_names[out] = concat({"gradient of '", op.inputs[i].name, "'"});
        }
        ++out;
    }
    if (out != gradient.out_count)
        refuse({"has ", gradient.out_count, " results; wanted ", out, ", one for each floating-point input"});
    gradient.batch = op.batch;
    check_operator(gradient);
    op.gradient = &gradient;
}

/// The first parameter whose tensors differ from those of the host function; -1: none. Device and order of the elements may
/// differ; the sizes and dtypes of the results follow one rule, so they may not.
inline int first_difference(const OperatorDefinition& op, const OverloadFacts& device, const OverloadFacts& host) {
    const auto same_sizes = [](const Requirement& a, const Requirement& b) {
        if (a.size_count != b.size_count) return false;
        for (int d = 0; d < a.size_count; ++d)
            if (a.sizes[d].size != b.sizes[d].size || a.sizes[d].name != b.sizes[d].name) return false;
        return true;
    };
    for (int i = 0; i < op.parameter_count(); ++i) {
        if (!op.parameters()[i].is_tensor()) continue;
        const Requirement &a = *device.parameters[i].requirement, &b = *host.parameters[i].requirement;
        const bool same_dtype = a.accepts == b.accepts && (a.accepts != nullptr || a.dtype == b.dtype);
        if (!same_dtype || a.least_rank != b.least_rank || a.most_rank != b.most_rank || !same_sizes(a, b)) return i;
    }
    return -1;
}

void join_device(OperatorDefinition& op, const OverloadFacts* overloads, int count) {
    for (int d = 0; d < count; ++d) {
        if (!is_device_form(overloads[d], op.overloads[0]))
            refuse_operator(op.name,
                            "its device function wants the parameters of the host's function, then an isthmus::Stream");
        int found = -2, nearest = 0;
        for (int o = 0; o < op.overload_count && found != -1; ++o) {
            const int difference = first_difference(op, overloads[d], op.overloads[o]);
            if (difference != -1 && difference <= found) continue;
            found = difference;
            nearest = o;
        }
        if (found == -1) continue;
        refuse_operator(op.name, {"its device function has '", op.name_of(found), "' as ",
                                  overloads[d].parameters[found].requirement->words, "; wanted the dtype and sizes of ",
                                  op.overloads[nearest].parameters[found].requirement->words});
    }
    op.device_overloads = overloads;
    op.device_overload_count = count;
}

}  // namespace detail

ISTHMUS_END
