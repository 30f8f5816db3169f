// OperatorCall: one call of an operator, whichever framework it came from, from its tensors to the C++ function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "definition.h"  // Python.h must come before any standard header

#include <forward_list>
#include <new>
#include <vector>

#include <isthmus/core/shape.h>
#include <isthmus/core/view/match.h>
#include <isthmus/python/captured.h>
#include "../runtime/errors.h"
#include "../runtime/streams.h"

ISTHMUS_BEGIN

namespace detail {

/// Reads a scalar of a dtype from memory; false if the parameter does not take that dtype.
bool read_scalar(ParameterValue& value, ParameterKind kind, DType dtype, const void* data) noexcept;
/// The dtype of a scalar parameter in C++.
constexpr DType scalar_dtype(ParameterKind kind) noexcept {
    return kind == ParameterKind::number ? float64 : kind == ParameterKind::integer ? int64 : boolean;
}

/// "n", "n-1", "c/(h*w)"; empty for a number and for any size.
std::string words_of_size(const SizeSpec& spec);

/// Moves on to the next place, the last dimension fastest; false after the last one. Every size is above 0.
inline bool next_place(std::int64_t* place, const std::int64_t* sizes, int ndim) noexcept {
    for (int d = ndim - 1; d >= 0; --d) {
        if (++place[d] != sizes[d]) return true;
        place[d] = 0;
    }
    return false;
}
/// The offset in elements from the first one to a place, of a tensor whose dimensions of size 1 stand for any size.
inline std::int64_t elements_to(const std::int64_t* place, const std::int64_t* shape, const std::int64_t* strides,
                                int ndim) noexcept {
    std::int64_t elements = 0;
    for (int d = 0; d < ndim; ++d)
        if (shape[d] != 1) elements += place[d] * strides[d];
    return elements;
}

/// "xs', element 1", which an error completes.
std::string name_of_element(const std::string& list, std::size_t place);
/// The elements of a list of tensors in one call.
struct ListArgument {
    std::vector<DLTensor> tensors;
    std::vector<Flags> flags;

    void add(const DLTensor& t, Flags of_tensor) {
        tensors.push_back(t);
        flags.push_back(of_tensor);
    }
};

/// The tensors and scalars of one call. The descriptors that are set must stay until the call is over; each has
/// strides.
class OperatorCall {
public:
    /// `batch_ndim`: leading dimensions that every tensor has beyond those of its type, each of one common size or of
    /// size 1. By default as many as there are, which are broadcast, if the operator was registered so; else none.
    explicit OperatorCall(const OperatorDefinition& op, int batch_ndim = -1) noexcept
        : op_(op), overloads_(op.overloads), overload_count_(op.overload_count), batch_ndim_(batch_ndim) {}

    /// The tensors are given by dtype and sizes alone: the order of their elements is not checked.
    void set_abstract() noexcept { abstract_ = true; }
    /// Sizes stand for symbols, so that strides mean nothing: not even whether elements overlap is checked.
    void set_symbolic() noexcept { symbolic_ = true; }
    /// Some sizes stand for symbols, with which there is no counting: formulas are left to the caller, and such a size
    /// of a result is dyn.
    void leave_formulas() noexcept { leaves_formulas_ = true; }
    const OperatorDefinition& definition() const noexcept { return op_; }
    ParameterValue& value(int parameter) noexcept { return values_[parameter]; }

    ISTHMUS_ALWAYS_INLINE void set_tensor(int parameter, const DLTensor& t, Flags flags) noexcept {
        DLTensor& inner = inner_[parameter];
        inner = t;
        flags_[parameter] = flags;
        values_[parameter].tensor = &inner;
        if (ISTHMUS_UNLIKELY(batch_ndim_ != 0 && (op_.batch || batch_ndim_ > 0))) split(parameter);
    }
    /// An array that has the sizes of the argument, then 0, and no elements.
    void set_sizes(int parameter, DLTensor t, Flags flags) noexcept {
        t.ndim -= t.ndim > 0 ? 1 : 0;
        set_tensor(parameter, t, flags);
    }
    /// The same tensor at another address. Only without batch dimensions.
    void move_tensor(int parameter, void* data) noexcept { inner_[parameter].data = data; }
    void set_absent(int parameter) noexcept { values_[parameter].text = {nullptr, 0}; }
    /// Where the elements of a list of tensors go, whose descriptors must stay as those of other tensors.
    ListArgument& list(int parameter) {
        if (lists_ == nullptr)
            lists_ = std::make_unique<ListArgument[]>(static_cast<std::size_t>(op_.parameter_count()));
        return lists_[static_cast<std::size_t>(parameter)];
    }

    /// Puts the work on this stream, which must live until the call is over, by the operator's device functions. Call
    /// when all inputs are set. An Error if two of them are on different devices.
    Result<void> go_to(const Stream& stream);
    /// Chooses the overload by the dtypes of the inputs, and binds their named sizes. Call when all inputs are set.
    ISTHMUS_ALWAYS_INLINE Result<void> choose() {
        if (ISTHMUS_UNLIKELY(batched_ || batch_ndim_ > 0 || batch_ndim_ < -1))
            if (auto broadcast = broadcast_batch(); !broadcast) return broadcast;
        if (ISTHMUS_UNLIKELY(op_.has_lists)) close_lists();
        for (int i = 0; i < overload_count_; ++i) {
            names_.count = 0;
            if (!fits(overloads_[i])) continue;
            overload_ = overloads_ + i;
            return {};
        }
        return choose_packed();
    }
    /// Makes the row-major copy of an input on a device: only its framework can. Its description must stay until the
    /// call is over. Without one such an input is an Error(needs_copy).
    using DevicePacker = Result<DLTensor> (*)(void* context, int parameter, const DLTensor& whole);
    void set_device_packer(DevicePacker packer, void* context) noexcept {
        device_packer_ = packer;
        packer_context_ = context;
    }
    /// The sizes of result `out`, the batch dimensions first, at most max_ndim. Call after choose().
    Result<void> shape_of(int out, SizesList& shape) const;
    DType dtype_of(int out) const noexcept {
        const Requirement& r = *overload_->parameters[op_.outs[out]].requirement;
        return ISTHMUS_LIKELY(r.accepts == nullptr) ? r.dtype : like_dtype(out);
    }
    /// The memory of a result that the caller brought. An error names the result.
    Result<void> set_out(int out, const DLTensor& t, Flags flags, const SizesList& shape);
    /// Results keep the rows that the function did not write: integers -1, everything else 0.
    void set_padded() noexcept { padded_ = true; }
    /// How many rows a result has whose first size is a bound. Call after run().
    std::int64_t rows_of(int out) const noexcept { return rows_[out]; }
    /// The memory of a result that was allocated for this call.
    void set_made(int out, const DLTensor& t) noexcept { set_tensor(op_.outs[out], t, 0); }

    /// Calls the function. Uses nothing of Python.
    CapturedException run() {
        if (ISTHMUS_UNLIKELY(op_.needed_parameter >= 0)) drop_unneeded();
        return ISTHMUS_LIKELY(stream_ == nullptr) ? run_here() : run_on_device();
    }

private:
    Requirement in_any_order(Requirement r) const noexcept {
        r.order = Order::any;
        r.writable = r.writable && !symbolic_;
        return r;
    }
    bool is_given(int parameter) const noexcept {
        return op_.parameters()[parameter].is_tensor() && values_[parameter].tensor != nullptr;
    }
    DType like_dtype(int out) const noexcept {
        const DTypeSource& source = op_.sources_of(overload_, stream_ != nullptr)[out];
        if (op_.parameters()[source.parameter].kind == ParameterKind::dtype) return values_[source.parameter].dtype;
        const DLTensor* tensor = values_[source.parameter].tensor;
        return (tensor != nullptr ? tensor : values_[source.otherwise].tensor)->dtype;
    }
    /// The requirement of an argument that may be copied: what a copy cannot change.
    static Requirement before_packing(Requirement r) noexcept {
        if (r.converts != Converts::orders) return r;
        r.order = Order::any;
        r.alignment = 1;
        return r;
    }
    template <bool packs>
    ISTHMUS_ALWAYS_INLINE bool is_met(const DLTensor& t, Flags flags, const Requirement& r) const noexcept {
        return packs ? meets(t, flags, before_packing(r))
                     : meets(t, flags, ISTHMUS_UNLIKELY(abstract_) ? in_any_order(r) : r);
    }
    /// `packs`: arguments that may be copied have any order.
    template <bool packs = false>
    ISTHMUS_ALWAYS_INLINE bool fits(const OverloadFacts& overload) noexcept {
        for (int i = 0; i < op_.input_count; ++i) {
            const int p = op_.inputs[i].parameter;
            const ParameterFacts& facts = overload.parameters[p];
            if (!facts.is_tensor() || values_[p].tensor == nullptr) continue;
            const Requirement& r = *facts.requirement;
            if (!is_met<packs>(inner_[p], flags_[p], r)) return false;
            if (r.size_count >= 0 && !has_sizes(inner_[p], r.sizes, names_, op_.inputs[i].name.c_str())) return false;
        }
        if (ISTHMUS_UNLIKELY(op_.has_lists) && !lists_fit(overload, packs)) return false;
        if (ISTHMUS_UNLIKELY(op_.has_runs) && !bind_runs(overload)) return false;
        return ISTHMUS_LIKELY(!op_.has_formulas) || first_formula_broken(overload).parameter < 0;
    }
    /// A size of an input that is not what its formula gives.
    struct BrokenFormula {
        int parameter = -1;
        int dimension = 0;
        std::int64_t expected = dyn;  ///< dyn: the formula gives no size
    };
    BrokenFormula first_formula_broken(const OverloadFacts& overload) const;
    std::int64_t size_named(std::string_view name) const noexcept;
    Result<std::int64_t> size_by_formula(int out, const SizeSpec& spec, bool required) const;
    int negative_size(std::string_view formula) const;
    std::string values_of_names(std::string_view formula) const;
    Error explain_formula(const OverloadFacts& overload, const BrokenFormula& broken) const;
    Result<void> append_sizes(int out, SizesList& shape) const;
    Result<std::int64_t> unbound_size(int out, const SizeSpec& spec, bool required) const;
    Result<void> bind_runs(const OverloadFacts& overload);
    void bind_run(int input, const Requirement& r, TextRef name, int count);
    Result<void> check_runs_of(int input, const Requirement& r);
    Result<void> append_run(int out, const SizeSpec& spec, bool required, SizesList& shape) const;
    void close_lists();
    bool lists_fit(const OverloadFacts& overload, bool packs) noexcept;
    bool list_takes(int parameter, const Requirement& r) const noexcept;
    Result<void> pack_lists(const OverloadFacts& overload);
    Result<void> check_devices_of_lists() const;
    Result<void> explain_list(Match& match, std::forward_list<std::string>& names, int input,
                              const Requirement& r) const;
    void split(int parameter) noexcept;
    Result<void> check_batch();
    Result<void> broadcast_batch();
    Result<void> choose_packed();
    Result<void> pack_arguments(const OverloadFacts& overload);
    Result<DLTensor> packed_copy(int parameter, const DLTensor& whole, const Requirement& r);
    const OverloadFacts& nearest_overload(int& reached) const;
    Error explain();
    Error explain_dtype(int parameter) const;
    bool is_needed(int out) const noexcept {
        return !op_.parameters()[op_.outs[out]].optional || (values_[op_.needed_parameter].integer >> out & 1) != 0;
    }
    void drop_unneeded() noexcept;
    void ask_rows() noexcept;
    void pad() noexcept;
    CapturedException run_batched();
    CapturedException run_here();
    CapturedException run_on_device();
    bool is_elsewhere(const DLTensor& t) const noexcept {
        return stream_ != nullptr && has_streams(t.device.device_type) && Device(t.device) != stream_->device();
    }
    Error explain_elsewhere(const std::string& name, const DLTensor& t) const;
    bool lacks_device(int parameter) const noexcept;

    const OperatorDefinition& op_;
    const OverloadFacts* overloads_;  ///< those of the host, or of a device
    int overload_count_;
    const Stream* stream_ = nullptr;  ///< NULL on the host
    const OverloadFacts* overload_ = nullptr;
    int batch_ndim_;
    bool batched_ = false;
    bool abstract_ = false;
    bool symbolic_ = false;
    bool leaves_formulas_ = false;
    bool padded_ = false;
    DevicePacker device_packer_ = nullptr;
    void* packer_context_;                         ///< set with the packer
    std::unique_ptr<std::vector<Tensor>> copies_;  ///< of arguments that were not row-major
    std::vector<Run> runs_;                        ///< of dimensions, once bind_runs() has found them
    std::unique_ptr<ListArgument[]> lists_;        ///< by parameter
    std::int64_t rows_[max_results];               ///< set if some result is bounded
    SizeNames names_;
    ParameterValue values_[max_parameters];
    DLTensor inner_[max_parameters];
    Flags flags_[max_parameters];
    int batch_of_[max_parameters];  ///< by parameter, the batch dimensions cut off; set if batched_
    SizesList batch_;               ///< all batch dimensions, broadcast
};

}  // namespace detail

ISTHMUS_END
