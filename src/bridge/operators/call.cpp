// How a call of an operator chooses its overload, runs, and says what does not fit.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>

#include <isthmus/backend/captured.h>
#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_COLD void raise_captured(const char* function, const CapturedException& captured) noexcept {
    if (!captured) return;
    if (captured.kind() == CapturedException::Kind::error) return set_python_error(captured.error());
    PyObject* const classes[] = {nullptr,           nullptr,          PyExc_MemoryError,
                                 PyExc_ValueError,  PyExc_IndexError, PyExc_OverflowError,
                                 PyExc_RuntimeError};
    PyErr_Format(classes[static_cast<int>(captured.kind())], "%s(): %s", function, captured.text());
}
ISTHMUS_COLD CapturedException capture_current() noexcept { return read_current(); }
ISTHMUS_COLD void raise_current(const char* function) noexcept { raise_captured(function, read_current()); }

template <class T>
static T load_as(const void* data) noexcept {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
}
bool read_scalar(ParameterValue& value, ParameterKind kind, DType dtype, const void* data) noexcept {
    if (kind == ParameterKind::boolean) {
        value.boolean = load_as<std::uint8_t>(data) != 0;
        return dtype == boolean;
    }
    if (dtype == int64 || dtype == int32) {
        const std::int64_t integer = dtype == int64 ? load_as<std::int64_t>(data) : load_as<std::int32_t>(data);
        if (kind == ParameterKind::integer)
            value.integer = integer;
        else
            value.number = static_cast<double>(integer);
        return true;
    }
    if (kind != ParameterKind::number) return false;
    if (dtype == float64)
        value.number = load_as<double>(data);
    else if (dtype == float32)
        value.number = static_cast<double>(load_as<float>(data));
    else if (dtype == boolean)
        value.number = load_as<std::uint8_t>(data);
    else
        return false;
    return true;
}

/// Splits off the batch dimensions: the function sees only those of its type.
void OperatorCall::split(int parameter) noexcept {
    if (!batched_) std::fill(std::begin(batch_of_), std::end(batch_of_), 0);
    batched_ = true;
    DLTensor& t = inner_[parameter];
    const int rank = op_.parameters()[parameter].requirement->min_rank;
    int count = batch_ndim_ > 0 ? batch_ndim_ : t.ndim - rank;
    if (count < 0 || count > t.ndim) count = 0;
    batch_of_[parameter] = count;
    t.ndim -= count;
    t.shape += count;
    t.strides += count;
}

/// Whether each tensor has the batch dimensions that the caller says all have.
Result<void> OperatorCall::check_batch() {
    if (batch_ndim_ < -1)
        return make_error(ErrorCode::bad_argument, ErrorKind::value,
                          {op_.function, "(): found ", batch_ndim_, " leading dimensions; expected 0 or more"});
    if (!batched_) batch_ndim_ = 0;  // no tensor was given, so no result has any batch dimensions
    for (int i = 0; batch_ndim_ > 0 && i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (is_given(p) && batch_of_[p] != batch_ndim_)
            return op_.argument_error(
                ErrorCode::bad_layout, op_.inputs[i].name,
                {"expected ", batch_ndim_, " leading dimensions, got ", describe_tensor(inner_[p])});
    }
    return {};
}

Result<void> OperatorCall::broadcast_batch() {
    if (auto checked = check_batch(); !checked || !batched_) return checked;
    const int ndim = *std::max_element(batch_of_, batch_of_ + op_.parameter_count());
    batch_.clear();
    for (int d = 0; d < ndim; ++d) batch_.push_back(1);
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!is_given(p)) continue;
        const int count = batch_of_[p];
        const std::int64_t* sizes = inner_[p].shape - count;
        for (int d = 0; d < count; ++d) {
            std::int64_t& whole = batch_[static_cast<std::size_t>(ndim) - static_cast<std::size_t>(count - d)];
            if (sizes[d] == whole || sizes[d] == 1) continue;
            if (whole != 1)
                return op_.argument_error(ErrorCode::bad_layout, op_.inputs[i].name,
                                          {"leading sizes ", sizes_text(sizes, count), " do not broadcast with ",
                                           sizes_text(batch_.data(), ndim), " of the arguments before it"});
            whole = sizes[d];
        }
    }
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter, count = batch_of_[p];
        if (op_.input_facts(i).kind != ParameterKind::in_out || !is_given(p)) continue;
        if (count != ndim || !std::equal(batch_.begin(), batch_.end(), inner_[p].shape - ndim))
            return op_.argument_error(
                ErrorCode::bad_layout, op_.inputs[i].name,
                {"leading sizes ", sizes_text(inner_[p].shape - count, count), " are written for each of ",
                 sizes_text(batch_.data(), ndim), "; expected the same sizes"});
    }
    return {};
}

Result<void> OperatorCall::go_to(const Stream& stream) {
    stream_ = &stream;
    overloads_ = op_.device_overloads;
    overload_count_ = op_.device_overload_count;
    values_[op_.function_parameter_count()].stream = &stream;
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (is_given(p) && is_elsewhere(inner_[p])) return explain_elsewhere(op_.inputs[i].name, inner_[p]);
    }
    if (op_.has_lists) return check_devices_of_lists();
    return {};
}

ISTHMUS_COLD Error OperatorCall::explain_elsewhere(const std::string& name, const DLTensor& t) const {
    const std::string beside =
        op_.has_lists ? std::string("tensors ") : concat({"'", op_.name_of(op_.first_tensor), "' "});
    return op_.argument_error(
        ErrorCode::bad_device, name,
        {"got ", describe_tensor(t), " beside ", beside, "on ", stream_->device(), "; expected one device"});
}

/// Whether a tensor is on a GPU while the operator has only host functions.
ISTHMUS_COLD bool OperatorCall::lacks_device(int parameter) const noexcept {
    if (op_.has_device() || !has_streams(inner_[parameter].device.device_type)) return false;
    for (int o = 0; o < overload_count_; ++o)
        if (!is_host_type(overloads_[o].parameters[parameter].requirement->device_type)) return false;
    return true;
}

ISTHMUS_COLD Error OperatorCall::explain_dtype(int parameter) const {
    std::string expected;
    for (int o = 0; o < overload_count_; ++o) {
        const std::string words(overloads_[o].parameters[parameter].requirement->words);
        if (expected.find(words) != std::string::npos) continue;
        expected += concat({expected.empty() ? "" : " or ", words});
    }
    return op_.argument_error(ErrorCode::bad_dtype, op_.name_of(parameter),
                              {"expected ", expected, ", got ", describe_tensor(inner_[parameter]), ": dtype differs"});
}

/// Called when no overload takes the arguments as they are: perhaps one does when those that may be copied are
/// row-major.
ISTHMUS_NOINLINE Result<void> OperatorCall::choose_packed() {
    for (int o = 0; op_.packs_inputs && o < overload_count_; ++o) {
        names_.count = 0;
        if (!fits<true>(overloads_[o])) continue;
        overload_ = overloads_ + o;
        return pack_arguments(*overload_);
    }
    return explain();
}
Result<void> OperatorCall::pack_arguments(const OverloadFacts& overload) {
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!is_given(p)) continue;
        const Requirement& r = *overload.parameters[p].requirement;
        if (r.converts != Converts::orders || meets(inner_[p], flags_[p], r)) continue;
        DLTensor whole = inner_[p];
        const int lead = batched_ ? batch_of_[p] : 0;
        whole.ndim += lead;
        whole.shape -= lead;
        whole.strides -= lead;
        auto copy = packed_copy(p, whole, r);
        if (!copy) return prefixed(copy.error(), {call_prefix(op_.function.c_str(), op_.inputs[i].name.c_str())});
        set_tensor(p, *copy, flags_[p]);
    }
    if (op_.has_lists) return pack_lists(overload);
    return {};
}
Result<DLTensor> OperatorCall::packed_copy(int parameter, const DLTensor& whole, const Requirement& r) {
    if (!Device(whole.device).is_host()) {
        if (device_packer_ != nullptr) return device_packer_(packer_context_, parameter, whole);
        return make_error(ErrorCode::needs_copy, ErrorKind::value,
                          {"got ", describe_tensor(whole), " with strides ", sizes_text(whole.strides, whole.ndim),
                           ", which only its framework can copy; expected row-major memory"});
    }
    Result<Tensor> copy = r.convert(whole, r);
    if (!copy) return copy.error();
    if (copies_ == nullptr) copies_ = std::make_unique<std::vector<Tensor>>();
    copies_->push_back(std::move(*copy));
    return copies_->back().descriptor();
}

/// The overload for which the most leading arguments have a fitting dtype: `reached` of them.
ISTHMUS_COLD const OverloadFacts& OperatorCall::nearest_overload(int& reached) const {
    const OverloadFacts* nearest = overloads_;
    reached = -1;
    for (int o = 0; o < overload_count_; ++o) {
        int count = 0;
        for (; count < op_.input_count; ++count) {
            const int p = op_.inputs[count].parameter;
            const Requirement* r = overloads_[o].parameters[p].requirement;
            if (is_given(p) ? !r->takes(inner_[p].dtype) : op_.parameters()[p].is_list() && !list_takes(p, *r)) break;
        }
        if (count <= reached) continue;
        reached = count;
        nearest = overloads_ + o;
    }
    return *nearest;
}

/// Why no overload takes the arguments; explains the nearest one.
ISTHMUS_COLD Error OperatorCall::explain() {
    int reached = 0;
    const OverloadFacts& nearest = nearest_overload(reached);
    Match match(op_.function.c_str());
    std::forward_list<std::string> names;  // of elements, which the match refers to
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (op_.parameters()[p].is_list())
            if (auto checked = explain_list(match, names, i, *nearest.parameters[p].requirement); !checked)
                return checked.error();
        if (!is_given(p)) continue;
        const Requirement& r = *nearest.parameters[p].requirement;
        if (lacks_device(p))
            return op_.argument_error(ErrorCode::bad_device, op_.inputs[i].name,
                                      {"expected ", r.words, ", got ", describe_tensor(inner_[p]),
                                       ": this operator has no function for a GPU; register one with .cuda<f>()"});
        // The first argument decides between the overloads; the others have to agree with it.
        if (i == reached && overload_count_ > 1 && p == op_.first_tensor && !op_.has_lists) return explain_dtype(p);
        auto checked = match.check_argument(op_.inputs[i].name.c_str(), inner_[p], flags_[p],
                                            abstract_ ? in_any_order(r) : before_packing(r));
        if (!checked) return checked.error();
    }
    if (op_.has_runs)
        if (auto bound = bind_runs(nearest); !bound) return bound.error();
    if (const BrokenFormula broken = first_formula_broken(nearest); broken.parameter >= 0)
        return explain_formula(nearest, broken);
    return make_error(ErrorCode::bad_argument, {op_.function, "(): the arguments do not fit"});
}

Result<void> OperatorCall::set_out(int out, const DLTensor& t, Flags flags, const SizesList& shape) {
    const std::string& name = op_.out_names[out];
    if (ISTHMUS_UNLIKELY(is_elsewhere(t))) return explain_elsewhere(name, t);
    const bool same =
        static_cast<std::size_t>(t.ndim) == shape.size() && std::equal(shape.begin(), shape.end(), t.shape);
    if (!same)
        return op_.argument_error(ErrorCode::bad_layout, name,
                                  {"expected sizes ", sizes_text(shape.data(), static_cast<int>(shape.size())),
                                   ", got ", describe_tensor(t)});
    const int p = op_.outs[out];
    set_tensor(p, t, flags);
    const Requirement& required = *overload_->parameters[p].requirement;
    const bool same_dtype = required.accepts == nullptr || inner_[p].dtype == like_dtype(out);
    if (ISTHMUS_LIKELY(meets(inner_[p], flags, required) && same_dtype)) return {};
    Requirement r = required;
    r.size_count = -1;  // the sizes were compared already
    Match match(op_.function.c_str());
    auto checked = match.check_argument(name.c_str(), inner_[p], flags, r);
    if (!checked) return checked;
    return op_.argument_error(ErrorCode::bad_dtype, name,
                              {"expected ", like_dtype(out), ", got ", describe_tensor(t), ": dtype differs"});
}

/// One call for each place in the batch dimensions.
CapturedException OperatorCall::run_batched() {
    const int ndim = static_cast<int>(batch_.size());
    void* base[max_parameters];
    for (int p = 0; p < op_.parameter_count(); ++p) base[p] = inner_[p].data;
    CapturedException captured;
    if (std::find(batch_.begin(), batch_.end(), 0) != batch_.end()) return captured;
    if (op_.has_bounds && !padded_)
        return CapturedException(make_error(
            ErrorCode::bad_argument, ErrorKind::value,
            {op_.function, "(): each call says how many rows its result has, and calls in a batch would differ"}));
    std::int64_t place[max_ndim] = {};
    do {
        for (int p = 0; p < op_.parameter_count(); ++p) {
            if (!is_given(p)) continue;
            DLTensor& t = inner_[p];
            const int count = batch_of_[p];
            const std::int64_t elements = elements_to(place + ndim - count, t.shape - count, t.strides - count, count);
            t.data = static_cast<char*>(base[p]) + elements * DType(t.dtype).itemsize();
        }
        if (op_.has_bounds) ask_rows();
        overload_->call(values_, captured);
        if (padded_ && !captured) pad();
    } while (!captured && next_place(place, batch_.data(), ndim));
    return captured;
}

/// Makes the stream's device the current one of this thread during the call.
CapturedException OperatorCall::run_on_device() {
    const StreamDriver* driver = driver_of(stream_->device());
    if (driver == nullptr) return run_here();
    const CurrentDevice current(*driver, stream_->device().id);
    if (current) return run_here();
    return CapturedException(
        make_error(ErrorCode::producer_failed, {op_.function, "(): the driver could not go to ", stream_->device()}));
}

/// The function sees no result that nobody needs; the caller has an empty one.
ISTHMUS_COLD void OperatorCall::drop_unneeded() noexcept {
    for (int i = 0; i < op_.out_count; ++i)
        if (!is_needed(i)) values_[op_.outs[i]].tensor = nullptr;
}

/// Each bounded result says to rows_ how many rows it has, at first all.
ISTHMUS_COLD void OperatorCall::ask_rows() noexcept {
    for (int i = 0; i < op_.out_count; ++i) {
        const int p = op_.outs[i];
        if (!op_.is_bounded(i) || values_[p].tensor == nullptr) continue;
        rows_[i] = inner_[p].shape[0];
        values_[p].set_rows(&rows_[i]);
    }
}
/// The memory of a result that was made for a call is row-major.
ISTHMUS_COLD void OperatorCall::pad() noexcept {
    for (int i = 0; i < op_.out_count; ++i) {
        const DLTensor& t = inner_[op_.outs[i]];
        if (!op_.is_bounded(i) || t.shape[0] == 0) continue;
        const auto row = static_cast<std::size_t>(layout::nbytes(t, false) / t.shape[0]);
        const bool is_integer = t.dtype.code == kDLInt || t.dtype.code == kDLUInt;
        std::memset(static_cast<char*>(t.data) + row * static_cast<std::size_t>(rows_[i]), is_integer ? 0xFF : 0,
                    row * static_cast<std::size_t>(t.shape[0] - rows_[i]));
    }
}

CapturedException OperatorCall::run_here() {
    if (ISTHMUS_UNLIKELY(batched_)) return run_batched();
    if (ISTHMUS_UNLIKELY(op_.has_bounds)) ask_rows();
    CapturedException captured;
    overload_->call(values_, captured);
    if (ISTHMUS_UNLIKELY(padded_) && !captured) pad();
    return captured;
}

}  // namespace detail

ISTHMUS_END
