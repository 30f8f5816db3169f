// The dtypes of an operator's results, found when it is registered or refused then, and arguments that are dtypes.
// SPDX-License-Identifier: Apache-2.0
#include "definition.h"  // Python.h must come before any standard header

#include "../object/tensor_type.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// Whether a requirement takes every dtype that another one takes.
bool takes_all_of(const Requirement& outer, const Requirement& inner) noexcept {
    if (inner.accepts == nullptr) return outer.takes(inner.dtype);
    if (inner.accepts == outer.accepts) return true;
    for (int code = 0; code < dtype_code_count; ++code)
        for (const int bits : {1, 2, 4, 6, 8, 16, 32, 64, 128}) {
            const DType dtype(code, bits);
            if (inner.accepts(dtype) && !outer.takes(dtype)) return false;
        }
    return true;
}

class SourceSearch {
public:
    SourceSearch(const OperatorDefinition& op, const OverloadFacts& overload, int out) noexcept
        : op_(op), overload_(overload), out_(out), facts_(overload.parameters[op.outs[out]]) {}

    DTypeSource find() const {
        DTypeSource source;
        const std::string_view named = facts_.dtype_like();
        source.parameter = named.empty() ? default_argument() : named_argument(named);
        if (is_optional(source.parameter)) source.otherwise = required_argument();
        if (is_optional(source.parameter) && source.otherwise < 0)
            refuse({"has the dtype of argument '", op_.name_of(source.parameter),
                    "', which may be None; expected a required argument of its dtypes"});
        return source;
    }

private:
    [[noreturn]] void refuse(Message why) const { op_.refuse({"result '", op_.out_names[out_], "' ", why}); }
    bool is_optional(int parameter) const noexcept { return overload_.parameters[parameter].optional; }
    bool is_of_gradient() const noexcept { return op_.gradient_of[out_] >= 0; }
    bool is_same_set(int parameter) const noexcept {
        return overload_.parameters[parameter].requirement->accepts == facts_.requirement->accepts;
    }
    bool has_only_dtypes_of_result(int parameter) const noexcept {
        return takes_all_of(*facts_.requirement, *overload_.parameters[parameter].requirement);
    }
    /// The first tensor argument for which `good` holds; -1 if there is none.
    template <class F>
    int first_argument(F&& good) const {
        for (int i = 0; i < op_.input_count; ++i) {
            const int p = op_.inputs[i].parameter;
            if (overload_.parameters[p].kind != ParameterKind::random && overload_.parameters[p].is_tensor() && good(p))
                return p;
        }
        return -1;
    }
    int named_argument(std::string_view name) const {
        for (int i = 0; i < op_.input_count; ++i) {
            if (op_.inputs[i].name != name) continue;
            const ParameterKind kind = op_.input_facts(i).kind;
            if (kind == ParameterKind::random || (!op_.input_facts(i).is_tensor() && kind != ParameterKind::dtype))
                refuse({"has the dtype of argument '", name, "'; expected the name of a tensor argument"});
            return op_.inputs[i].parameter;
        }
        refuse({"has the dtype of argument '", name, "'; expected the name of an input"});
    }
    /// That of the argument which a gradient belongs to; else the first of the same set; else the first whose dtypes
    /// are all of the set.
    int default_argument() const {
        if (is_of_gradient() && has_only_dtypes_of_result(op_.like[out_])) return op_.like[out_];
        int found = first_argument([&](int p) { return is_same_set(p) && !is_optional(p); });
        if (found < 0) found = first_argument([&](int p) { return is_same_set(p); });
        if (found < 0) found = first_argument([&](int p) { return has_only_dtypes_of_result(p) && !is_optional(p); });
        if (found >= 0) return found;
        refuse({"is ", facts_.requirement->words,
                ", and no tensor argument says which dtype; expected one of these dtypes, or dtype_like<\"x\">"});
    }
    /// For a gradient of an argument that was not given, which is empty: its dtype has no effect beyond its set.
    int required_argument() const {
        return first_argument(
            [&](int p) { return !is_optional(p) && (is_same_set(p) || has_only_dtypes_of_result(p)) && is_allowed(); });
    }
    /// By name the dtype is that argument's or none, except for an empty gradient.
    bool is_allowed() const noexcept { return !facts_.is_like || is_of_gradient(); }

    const OperatorDefinition& op_;
    const OverloadFacts& overload_;
    int out_;
    const ParameterFacts& facts_;
};

}  // namespace

std::unique_ptr<DTypeSource[]> find_dtype_sources(const OperatorDefinition& op, const OverloadFacts* overloads,
                                                  int count) {
    auto sources =
        std::make_unique<DTypeSource[]>(static_cast<std::size_t>(count) * static_cast<std::size_t>(op.out_count));
    for (int o = 0; o < count; ++o)
        for (int out = 0; out < op.out_count; ++out)
            if (overloads[o].parameters[op.outs[out]].requirement->accepts != nullptr)
                sources[static_cast<std::size_t>(o) * static_cast<std::size_t>(op.out_count) +
                        static_cast<std::size_t>(out)] = SourceSearch(op, overloads[o], out).find();
    return sources;
}

ISTHMUS_COLD bool read_dtype(PyObject* object, DType& dtype, const OperatorDefinition& op,
                             const std::string& argument) {
    const SharedRuntime* shared = shared_types();
    if (shared == nullptr) return false;
    if (value_from_python(object, shared->dtype, dtype)) return true;
    if (is_interrupted()) return false;
    const Ref text(PyObject_Repr(object));
    const std::string_view found = utf8_of(text.get());
    if (found.data() == nullptr) return false;
    const bool is_value = PyUnicode_Check(object) || PyTuple_Check(object);
    raise(ErrorCode::bad_dtype, is_value ? ErrorKind::value : ErrorKind::type,
          {call_prefix(op.function.c_str(), argument.c_str()), "found ", found, "; expected ",
           wanted_value(object, dtype)});
    return false;
}

}  // namespace detail

ISTHMUS_END
