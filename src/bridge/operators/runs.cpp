// Runs of dimensions under one name, sizes<"b... e k...">: told apart by the ranks of a call's arguments, and compared.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>

ISTHMUS_BEGIN

namespace detail {

namespace {

const Run* find_run(const std::vector<Run>& known, TextRef name) noexcept {
    for (const Run& run : known)
        if (run.name == name) return &run;
    return nullptr;
}
/// Of the runs of an argument, those that are not known yet: -1 if they have several names, else how often the one
/// occurs.
int unknown_runs(const Requirement& r, const std::vector<Run>& known, TextRef& name) {
    int count = 0;
    for (int i = 0; i < spec_count(r); ++i) {
        if (!is_run(r.sizes[i]) || find_run(known, r.sizes[i].name) != nullptr) continue;
        if (count > 0 && name != r.sizes[i].name) return -1;
        name = r.sizes[i].name;
        ++count;
    }
    return count;
}

}  // namespace

void check_runs(const OperatorDefinition& op, const OverloadFacts& overload) {
    std::vector<Run> known;
    int stuck = -1;
    for (bool progress = true; progress;) {
        progress = false;
        stuck = -1;
        for (int i = 0; i < op.input_count; ++i) {
            const Requirement* r = overload.parameters[op.inputs[i].parameter].requirement;
            TextRef name;
            const int unknown = r != nullptr ? unknown_runs(*r, known, name) : 0;
            if (unknown < 0) stuck = i;
            if (unknown <= 0) continue;
            known.push_back({name});
            progress = true;
        }
    }
    if (stuck >= 0)
        op.refuse({"the runs of dimensions of argument '", op.inputs[stuck].name, "', ",
                   overload.parameters[op.inputs[stuck].parameter].requirement->words,
                   ", cannot be told apart; expected another argument with one of them alone"});
}

/// Finds the sizes that each run stands for, and compares the sizes of all arguments that have runs.
ISTHMUS_NOINLINE Result<void> OperatorCall::bind_runs(const OverloadFacts& overload) {
    runs_.clear();
    bool bound[max_parameters] = {};
    const auto is_waiting = [&](int input) {
        const int p = op_.inputs[input].parameter;
        return !bound[input] && is_given(p) && has_runs(*overload.parameters[p].requirement);
    };
    for (bool progress = true; progress;) {
        progress = false;
        for (int i = 0; i < op_.input_count; ++i) {
            if (!is_waiting(i)) continue;
            const Requirement& r = *overload.parameters[op_.inputs[i].parameter].requirement;
            TextRef name;
            const int unknown = unknown_runs(r, runs_, name);
            if (unknown < 0) continue;
            if (unknown > 0) bind_run(i, r, name, unknown);
            if (auto checked = check_runs_of(i, r); !checked) return checked;
            bound[i] = progress = true;
        }
    }
    for (int i = 0; i < op_.input_count; ++i)
        if (is_waiting(i))
            return op_.argument_error(
                ErrorCode::bad_layout, op_.inputs[i].name,
                {"its dimensions, ", overload.parameters[op_.inputs[i].parameter].requirement->words,
                 ", cannot be told apart, since an argument was not given"});
    return {};
}

/// Binds the one run of an argument that is not known to what the other sizes leave, an equal part for each of `count`
/// places. check_runs_of() refuses what does not come out even.
void OperatorCall::bind_run(int input, const Requirement& r, TextRef name, int count) {
    const DLTensor& t = inner_[op_.inputs[input].parameter];
    int before = 0, rest = t.ndim;
    bool found = false;
    for (int i = 0; i < spec_count(r); ++i) {
        const bool runs = is_run(r.sizes[i]);
        const Run* run = runs ? find_run(runs_, r.sizes[i].name) : nullptr;
        const int dimensions = run != nullptr ? run->ndim : runs ? 0 : 1;
        found = found || (runs && r.sizes[i].name == name);
        before += found ? 0 : dimensions;
        rest -= dimensions;
    }
    const int ndim = rest > 0 ? rest / count : 0;
    runs_.push_back({name, t.shape + std::min<int>(before, t.ndim), ndim, op_.inputs[input].name.c_str()});
}

/// Compares the sizes of an argument, all of whose runs are known.
Result<void> OperatorCall::check_runs_of(int input, const Requirement& r) {
    const DLTensor& t = inner_[op_.inputs[input].parameter];
    const auto differs = [&](Message why) {
        return op_.argument_error(ErrorCode::bad_layout, op_.inputs[input].name,
                                  {"expected ", r.words, ", got ", describe_tensor(t), ": ", why});
    };
    std::int64_t expected = 0;
    std::string runs;
    for (int i = 0; i < spec_count(r); ++i) {
        const Run* run = is_run(r.sizes[i]) ? find_run(runs_, r.sizes[i].name) : nullptr;
        expected += run != nullptr ? run->ndim : 1;
        if (run != nullptr)
            runs += concat({"; ", words_of_size(r.sizes[i]), " has ", run->ndim, " in argument '", run->argument, "'"});
    }
    if (expected != t.ndim) return differs({"it has ", t.ndim, " dimensions, expected ", expected, runs});
    int d = 0;
    for (int i = 0; i < spec_count(r); ++i) {
        const SizeSpec& spec = r.sizes[i];
        if (is_run(spec)) {
            const Run& run = *find_run(runs_, spec.name);
            if (!std::equal(run.sizes, run.sizes + run.ndim, t.shape + d))
                return differs({words_of_size(spec), " is ", sizes_text(t.shape + d, run.ndim), " here and ",
                                sizes_text(run.sizes, run.ndim), " in argument '", run.argument, "'"});
            d += run.ndim;
            continue;
        }
        const std::int64_t size = t.shape[d], named = size - spec.more;
        if (spec.size != dyn && spec.size != size)
            return differs({"dimension ", d, " has size ", size, ", expected ", spec.size});
        if (!spec.name.empty() && named < 0)
            return differs({"dimension ", d, " has size ", size, ", expected ", spec.more, " or more"});
        const SizeNames::Entry* other =
            spec.name.empty() ? nullptr : names_.contradiction(spec.name, named, op_.inputs[input].name.c_str(), d);
        if (other != nullptr)
            return differs(
                {spec.name, " is ", named, " here and ", other->size, " in ", named_argument(other->argument)});
        ++d;
    }
    return {};
}

/// The sizes of a run of a result; 0 if they are those of an argument that was not given, and not `required`.
Result<void> OperatorCall::append_run(int out, const SizeSpec& spec, bool required, SizesList& shape) const {
    const Run* run = find_run(runs_, spec.name);
    if (run == nullptr && required)
        return make_error(ErrorCode::bad_argument,
                          {op_.function, "(): the dimensions ", words_of_size(spec), " of result '", op_.out_names[out],
                           "' are those of an argument that was not given"});
    for (int d = 0; d < (run != nullptr ? run->ndim : 1); ++d) shape.push_back(run != nullptr ? run->sizes[d] : 0);
    return {};
}

}  // namespace detail

ISTHMUS_END
