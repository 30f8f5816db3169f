// Lists of tensors as arguments of an operator: whether their elements fit, and what does not.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>

ISTHMUS_BEGIN

namespace detail {

std::string name_of_element(const std::string& list, std::size_t place) {
    return concat({list, element_mark, static_cast<std::int64_t>(place)});
}

/// Gives the function the elements that were set.
void OperatorCall::close_lists() {
    static constexpr DLTensor none{nullptr, {kDLCPU, 0}, 0, {}, nullptr, nullptr, 0};
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_list()) continue;
        const std::vector<DLTensor>& tensors = list(p).tensors;
        values_[p].tensors = {tensors.empty() ? &none : tensors.data(), tensors.size()};
    }
}

bool OperatorCall::lists_fit(const OverloadFacts& overload, bool packs) noexcept {
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!overload.parameters[p].is_list()) continue;
        const Requirement& r = *overload.parameters[p].requirement;
        const ListArgument& given = lists_[static_cast<std::size_t>(p)];
        for (std::size_t k = 0; k < given.tensors.size(); ++k) {
            const DLTensor& t = given.tensors[k];
            if (packs ? !is_met<true>(t, given.flags[k], r) : !is_met<false>(t, given.flags[k], r)) return false;
            if (r.size_count >= 0 && !has_sizes(t, r.sizes, names_, op_.inputs[i].name.c_str())) return false;
        }
    }
    return true;
}

/// Whether each element has a dtype that `r` takes.
bool OperatorCall::list_takes(int parameter, const Requirement& r) const noexcept {
    const std::vector<DLTensor>& tensors = lists_[static_cast<std::size_t>(parameter)].tensors;
    return std::all_of(tensors.begin(), tensors.end(), [&](const DLTensor& t) { return r.takes(t.dtype); });
}

Result<void> OperatorCall::pack_lists(const OverloadFacts& overload) {
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!overload.parameters[p].is_list()) continue;
        const Requirement& r = *overload.parameters[p].requirement;
        ListArgument& given = list(p);
        for (std::size_t k = 0; k < given.tensors.size(); ++k) {
            if (r.converts != Converts::orders || meets(given.tensors[k], given.flags[k], r)) continue;
            auto copy = packed_copy(p, given.tensors[k], r);
            const std::string name = name_of_element(op_.inputs[i].name, k);
            if (!copy) return prefixed(copy.error(), {call_prefix(op_.function.c_str(), name.c_str())});
            given.tensors[k] = *copy;
        }
    }
    return {};
}

Result<void> OperatorCall::check_devices_of_lists() const {
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_list() || lists_ == nullptr) continue;
        const std::vector<DLTensor>& tensors = lists_[static_cast<std::size_t>(p)].tensors;
        for (std::size_t k = 0; k < tensors.size(); ++k)
            if (is_elsewhere(tensors[k])) return explain_elsewhere(name_of_element(op_.inputs[i].name, k), tensors[k]);
    }
    return {};
}

/// Of an argument that may be a list, whose elements `r` is for: the error of the first element that does not fit.
ISTHMUS_COLD Result<void> OperatorCall::explain_list(Match& match, std::forward_list<std::string>& names, int input,
                                                     const Requirement& r) const {
    const ListArgument& given = lists_[static_cast<std::size_t>(op_.inputs[input].parameter)];
    for (std::size_t k = 0; k < given.tensors.size(); ++k) {
        names.push_front(name_of_element(op_.inputs[input].name, k));
        auto checked = match.check_argument(names.front().c_str(), given.tensors[k], given.flags[k],
                                            abstract_ ? in_any_order(r) : before_packing(r));
        if (!checked) return checked;
    }
    return {};
}

}  // namespace detail

ISTHMUS_END
