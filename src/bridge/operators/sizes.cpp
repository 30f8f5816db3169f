// The sizes of an operator's results: of names, of formulas, of an argument whose gradient they are.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>

#include "formula.h"

ISTHMUS_BEGIN

namespace detail {

Result<void> OperatorCall::shape_of(int out, SizesList& shape) const {
    auto appended = append_sizes(out, shape);
    if (!appended || ISTHMUS_LIKELY(shape.size() <= static_cast<std::size_t>(max_ndim))) return appended;
    return op_.argument_error(ErrorCode::bad_layout, op_.out_names[out],
                              {"it would have ", shape.size(), " dimensions; expected at most ", max_ndim});
}

Result<void> OperatorCall::append_sizes(int out, SizesList& shape) const {
    const Requirement& r = *overload_->parameters[op_.outs[out]].requirement;
    shape.clear();
    for (const std::int64_t size : batch_) shape.push_back(size);
    if (r.max_rank == 0) return {};
    if (ISTHMUS_UNLIKELY(op_.needed_parameter >= 0) && !is_needed(out)) {
        for (int d = 0; d == 0 || d < r.min_rank; ++d) shape.push_back(0);
        return {};
    }
    const bool by_sizes = r.size_count != -1 && op_.like[out] == op_.first_tensor;
    const DLTensor* like = by_sizes || op_.like[out] < 0 ? nullptr : values_[op_.like[out]].tensor;
    if (like != nullptr) {
        for (int d = 0; d < like->ndim; ++d) shape.push_back(like->shape[d]);
        return {};
    }
    // Without sizes either, it is the gradient of an argument that was not given, which is empty.
    for (int d = 0; r.size_count == -1 && d < r.min_rank; ++d) shape.push_back(0);
    for (int d = 0; d < spec_count(r); ++d) {
        const SizeSpec& spec = r.sizes[d];
        if (ISTHMUS_UNLIKELY(is_run(spec))) {
            if (auto appended = append_run(out, spec, by_sizes, shape); !appended) return appended;
            continue;
        }
        std::int64_t size = spec.name.empty() ? spec.size : names_.size_of(spec.name);
        if (ISTHMUS_UNLIKELY(size == dyn)) {
            const auto other =
                spec.name.empty() ? size_by_formula(out, spec, by_sizes) : unbound_size(out, spec, by_sizes);
            if (!other) return other.error();
            size = *other;
        }
        size += spec.name.empty() ? 0 : spec.more;
        if (ISTHMUS_UNLIKELY(size < 0) && !leaves_formulas_)
            return op_.argument_error(ErrorCode::bad_layout, op_.out_names[out],
                                      {"its size ", words_of_size(spec), " would be ", size, " (",
                                       values_of_names(words_of_size(spec)), ")"});
        shape.push_back(size);
    }
    return {};
}

std::int64_t OperatorCall::size_named(std::string_view name) const noexcept {
    const std::int64_t size = names_.size_of(name);
    const int integer = size < 0 ? op_.integer_named(name) : -1;
    return integer >= 0 ? values_[integer].integer : size;
}
/// The first integer argument that a formula names and that cannot be a size; -1 if there is none.
ISTHMUS_COLD int OperatorCall::negative_size(std::string_view formula) const {
    int found = -1;
    (void)each_name(formula, [&](std::string_view name) {
        const int integer = names_.size_of(name) < 0 ? op_.integer_named(name) : -1;
        if (integer >= 0 && values_[integer].integer < 0) found = integer;
        return found < 0;
    });
    return found;
}
/// "n-1", "c/(h*w)".
std::string words_of_size(const SizeSpec& spec) {
    if (const std::string_view formula = formula_of(spec); !formula.empty()) return std::string(formula);
    Words counted;
    add_size_name(counted, spec);
    std::string text(counted.size, '\0');
    Words words{text.data(), false};
    add_size_name(words, spec);
    return text;
}
/// "c is 7, h is 2".
std::string OperatorCall::values_of_names(std::string_view formula) const {
    std::string text;
    (void)each_name(formula, [&](std::string_view name) {
        const std::string value = concat({name, " is ", size_named(name)});
        if (text.find(value) == std::string::npos) text += concat({text.empty() ? "" : ", ", value});
        return true;
    });
    return text;
}
/// A size whose names are not all known, since an argument was not given, is not compared.
ISTHMUS_NOINLINE OperatorCall::BrokenFormula OperatorCall::first_formula_broken(const OverloadFacts& overload) const {
    for (int i = 0; !leaves_formulas_ && i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!is_given(p)) continue;
        const Requirement& r = *overload.parameters[p].requirement;
        for (int d = 0; d < r.size_count; ++d) {
            const std::string_view formula = formula_of(r.sizes[d]);
            if (formula.empty()) continue;
            const FormulaValue found =
                value_of_formula(formula, [&](std::string_view name) { return size_named(name); });
            if (found.state == FormulaState::unknown_name && negative_size(formula) < 0) continue;
            const bool known = found.state == FormulaState::known;
            if (!known || found.value != inner_[p].shape[d]) return {p, d, known ? found.value : dyn};
        }
    }
    return {};
}
ISTHMUS_COLD Error OperatorCall::explain_formula(const OverloadFacts& overload, const BrokenFormula& broken) const {
    const Requirement& r = *overload.parameters[broken.parameter].requirement;
    const std::string_view formula = formula_of(r.sizes[broken.dimension]);
    const std::string values = values_of_names(formula);
    const std::string expected =
        broken.expected == dyn ? std::string("no whole number") : std::to_string(broken.expected);
    return op_.argument_error(
        ErrorCode::bad_layout, op_.name_of(broken.parameter),
        {"expected ", r.words, ", got ", describe_tensor(inner_[broken.parameter]), ": dimension ", broken.dimension,
         " has size ", inner_[broken.parameter].shape[broken.dimension], ", and ", formula, " is ", expected, " (",
         values, ")"});
}
Result<std::int64_t> OperatorCall::size_by_formula(int out, const SizeSpec& spec, bool required) const {
    if (leaves_formulas_) return dyn;
    std::string_view formula = formula_of(spec);
    if (is_bound(formula)) formula.remove_prefix(2);
    const FormulaValue found = value_of_formula(formula, [&](std::string_view name) { return size_named(name); });
    if (found.state == FormulaState::known) return found.value;
    if (found.state == FormulaState::unknown_name) {
        if (const int integer = negative_size(formula); integer >= 0)
            return op_.argument_error(ErrorCode::bad_argument, op_.name_of(integer),
                                      {"found ", values_[integer].integer, "; expected a size, 0 or more"});
        if (!required) return 0;
        return make_error(ErrorCode::bad_argument, {op_.function, "(): the size ", formula, " of result '",
                                                    op_.out_names[out], "' is that of an argument that was not given"});
    }
    return op_.argument_error(
        ErrorCode::bad_layout, op_.out_names[out],
        {"its size ", formula, " is ", found.state == FormulaState::overflow ? "beyond 64 bits" : "no whole number",
         " (", values_of_names(formula), ")"});
}

/// A size of a result that no tensor has: that of an integer argument, else 0 unless it is required.
ISTHMUS_NOINLINE Result<std::int64_t> OperatorCall::unbound_size(int out, const SizeSpec& spec, bool required) const {
    const int integer = spec.name.empty() ? -1 : op_.integer_named(spec.name);
    if (integer >= 0) {
        const std::int64_t size = values_[integer].integer;
        if (size >= 0) return size;
        return op_.argument_error(ErrorCode::bad_argument, op_.name_of(integer),
                                  {"found ", size, "; expected the size of a result, 0 or more"});
    }
    if (!required) return 0;
    return make_error(ErrorCode::bad_argument, {op_.function, "(): the size ", spec.name, " of result '",
                                                op_.out_names[out], "' is that of an argument that was not given"});
}

}  // namespace detail

ISTHMUS_END
