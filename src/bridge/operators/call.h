// OperatorCall: one call of an operator, whichever framework it came from, from its tensors to the C++ function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <stdexcept>

#include <isthmus/core/sizes_list.h>
#include <isthmus/core/view/match.h>
#include <isthmus/python/operator/definition.h>
#include "../runtime/streams.h"

ISTHMUS_BEGIN

namespace detail {

/// What a C++ function threw, as plain data: it may have been thrown on a thread that has no Python.
struct Thrown {
    enum class Kind : std::uint8_t { nothing, error, memory, value, index, overflow, other };
    Kind kind = Kind::nothing;
    std::optional<Error> error;  ///< an isthmus::Error
    std::string text;

    explicit operator bool() const noexcept { return kind != Kind::nothing; }
};

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

/// The tensors and scalars of one call. The descriptors that are set must stay until the call is over; each has strides.
class OperatorCall {
public:
    /// `batch_dims`: leading dimensions that every tensor has beyond those of its type, each of one common size or of size 1.
    /// By default as many as there are, which are broadcast, if the operator was registered so; else none.
    explicit OperatorCall(const OperatorDefinition& op, int batch_dims = -1) noexcept
        : op_(op), overloads_(op.overloads), overload_count_(op.overload_count), batch_dims_(batch_dims) {}

    /// The tensors are given by dtype and sizes alone: the order of their elements is not checked.
    void say_only() noexcept { said_only_ = true; }
    const OperatorDefinition& definition() const noexcept { return op_; }
    ParameterValue& value(int parameter) noexcept { return values_[parameter]; }

    ISTHMUS_ALWAYS_INLINE void set_tensor(int parameter, const DLTensor& t, Flags flags) noexcept {
        DLTensor& inner = inner_[parameter];
        inner = t;
        flags_[parameter] = flags;
        values_[parameter].tensor = &inner;
        if (ISTHMUS_UNLIKELY(batch_dims_ != 0 && (op_.batch || batch_dims_ > 0))) split(parameter);
    }
    /// The same tensor at another address. Only without leading dimensions.
    void move_tensor(int parameter, void* data) noexcept { inner_[parameter].data = data; }
    void set_absent(int parameter) noexcept { values_[parameter].tensor = nullptr; }

    /// Puts the work on this stream, which must live until the call is over, by the operator's device functions. Call when all
    /// inputs are set. An Error if two of them are on different devices.
    Result<void> go_to(const Stream& stream);
    /// Chooses the overload by the dtypes of the inputs, and binds their named sizes. Call when all inputs are set.
    ISTHMUS_ALWAYS_INLINE Result<void> choose() {
        if (ISTHMUS_UNLIKELY(batched_ || batch_dims_ > 0 || batch_dims_ < -1))
            if (auto broadcast = broadcast_leads(); !broadcast) return broadcast;
        for (int i = 0; i < overload_count_; ++i) {
            names_.count = 0;
            if (!fits(overloads_[i])) continue;
            overload_ = overloads_ + i;
            return {};
        }
        return explain();
    }
    /// The sizes of result `out`, the leading ones first, at most max_ndim. Call after choose().
    Result<void> shape_of(int out, SizesList& shape) const;
    DType dtype_of(int out) const noexcept {
        const Requirement& r = *overload_->parameters[op_.outs[out]].requirement;
        return ISTHMUS_LIKELY(r.accepts == nullptr) ? r.dtype : like_dtype(out);
    }
    /// The memory of a result that the caller brought. An error names the result.
    Result<void> set_out(int out, const DLTensor& t, Flags flags, const SizesList& shape);
    /// The memory of a result that was allocated for this call.
    void set_made(int out, const DLTensor& t) noexcept { set_tensor(op_.outs[out], t, 0); }

    /// Calls the function. Uses nothing of Python.
    Thrown run() { return ISTHMUS_LIKELY(stream_ == nullptr) ? run_here() : run_on_device(); }

private:
    static Requirement in_any_order(Requirement r) noexcept {
        r.order = Order::any;
        return r;
    }
    DType like_dtype(int out) const noexcept { return values_[op_.like[out]].tensor->dtype; }
    ISTHMUS_ALWAYS_INLINE bool fits(const OverloadFacts& overload) noexcept {
        for (int i = 0; i < op_.input_count; ++i) {
            const int p = op_.inputs[i].parameter;
            const ParameterFacts& facts = overload.parameters[p];
            if (!facts.is_tensor() || values_[p].tensor == nullptr) continue;
            const Requirement& r = *facts.requirement;
            if (!meets(inner_[p], flags_[p], ISTHMUS_UNLIKELY(said_only_) ? in_any_order(r) : r)) return false;
            if (r.size_count >= 0 && !has_sizes(inner_[p], r.sizes, names_, op_.inputs[i].name.c_str())) return false;
        }
        return true;
    }
    Result<void> append_sizes(int out, SizesList& shape) const;
    void split(int parameter) noexcept;
    Result<void> check_leads();
    Result<void> broadcast_leads();
    Error explain();
    Error explain_dtype(int parameter) const;
    void run_batched();
    Thrown run_here();
    Thrown run_on_device();
    bool is_elsewhere(const DLTensor& t) const noexcept {
        return stream_ != nullptr && has_streams(t.device.device_type) && Device(t.device) != stream_->device();
    }
    Error explain_elsewhere(const char* name, const DLTensor& t) const;
    bool lacks_device(int parameter) const noexcept;

    const OperatorDefinition& op_;
    const OverloadFacts* overloads_;  ///< those of the host, or of a device
    int overload_count_;
    const Stream* stream_ = nullptr;  ///< NULL on the host
    const OverloadFacts* overload_ = nullptr;
    int batch_dims_;
    bool batched_ = false;
    bool said_only_ = false;
    SizeNames names_;
    ParameterValue values_[max_parameters];
    DLTensor inner_[max_parameters];
    Flags flags_[max_parameters];
    int leads_[max_parameters];  ///< leading dimensions cut off; set where batched_
    SizesList lead_;             ///< all leading dimensions, broadcast
};


/// Splits off the leading dimensions: the function sees only those of its type.
void OperatorCall::split(int parameter) noexcept {
    if (!batched_)
        for (int& count : leads_) count = 0;
    batched_ = true;
    DLTensor& t = inner_[parameter];
    const int rank = op_.parameters()[parameter].requirement->least_rank;
    int count = batch_dims_ > 0 ? batch_dims_ : t.ndim - rank;
    if (count < 0 || count > t.ndim) count = 0;
    leads_[parameter] = count;
    t.ndim -= count;
    t.shape += count;
    t.strides += count;
}

/// Whether each tensor has the leading dimensions that the caller says all have.
Result<void> OperatorCall::check_leads() {
    if (batch_dims_ < -1)
        return Error(ErrorCode::bad_argument, ErrorKind::value,
                     concat({op_.function, "(): found ", batch_dims_, " leading dimensions; wanted 0 or more"}));
    if (!batched_) batch_dims_ = 0;  // no tensor was given, so no result has any leading dimensions
    for (int i = 0; batch_dims_ > 0 && i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_tensor() || values_[p].tensor == nullptr || leads_[p] == batch_dims_) continue;
        return Error(ErrorCode::bad_layout, ErrorKind::value,
                     concat({call_prefix(op_.function.c_str(), op_.inputs[i].name.c_str()), "expected ", batch_dims_,
                             " leading dimensions, got ", describe_tensor(inner_[p])}));
    }
    return {};
}

Result<void> OperatorCall::broadcast_leads() {
    if (auto checked = check_leads(); !checked || !batched_) return checked;
    int most = 0;
    for (int i = 0; i < op_.parameter_count(); ++i) most = leads_[i] > most ? leads_[i] : most;
    lead_.clear();
    for (int d = 0; d < most; ++d) lead_.push_back(1);
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_tensor() || values_[p].tensor == nullptr) continue;
        const std::int64_t* sizes = inner_[p].shape - leads_[p];
        for (int d = 0; d < leads_[p]; ++d) {
            std::int64_t& whole = lead_[static_cast<std::size_t>(most - leads_[p]) + static_cast<std::size_t>(d)];
            if (sizes[d] == whole || sizes[d] == 1) continue;
            if (whole != 1)
                return Error(ErrorCode::bad_layout, ErrorKind::value,
                             concat({call_prefix(op_.function.c_str(), op_.inputs[i].name.c_str()), "leading sizes ",
                                     sizes_text(sizes, leads_[p]), " do not broadcast with ", sizes_text(lead_.data(), most),
                                     " of the arguments before it"}));
            whole = sizes[d];
        }
    }
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (op_.parameters()[p].kind != ParameterKind::in_out) continue;
        if (leads_[p] != most || !std::equal(lead_.begin(), lead_.end(), inner_[p].shape - most))
            return Error(ErrorCode::bad_layout, ErrorKind::value,
                         concat({call_prefix(op_.function.c_str(), op_.inputs[i].name.c_str()), "leading sizes ",
                                 sizes_text(inner_[p].shape - leads_[p], leads_[p]), " are written for each of ",
                                 sizes_text(lead_.data(), most), "; wanted the same sizes"}));
    }
    return {};
}

Result<void> OperatorCall::go_to(const Stream& stream) {
    stream_ = &stream;
    overloads_ = op_.device_overloads;
    overload_count_ = op_.device_overload_count;
    values_[op_.parameter_count()].stream = &stream;
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_tensor() || values_[p].tensor == nullptr || !is_elsewhere(inner_[p])) continue;
        return explain_elsewhere(op_.inputs[i].name.c_str(), inner_[p]);
    }
    return {};
}

ISTHMUS_COLD Error OperatorCall::explain_elsewhere(const char* name, const DLTensor& t) const {
    return Error(ErrorCode::bad_device, ErrorKind::value,
                 concat({call_prefix(op_.function.c_str(), name), "got ", describe_tensor(t), " beside '",
                         op_.name_of(op_.first_tensor), "' on ", stream_->device(), "; wanted one device"}));
}

/// Whether a tensor is on a GPU while the operator has only host functions.
ISTHMUS_COLD bool OperatorCall::lacks_device(int parameter) const noexcept {
    if (op_.has_device() || !has_streams(inner_[parameter].device.device_type)) return false;
    for (int o = 0; o < overload_count_; ++o)
        if (!is_host_type(overloads_[o].parameters[parameter].requirement->device_type)) return false;
    return true;
}

ISTHMUS_COLD Error OperatorCall::explain_dtype(int parameter) const {
    std::string wanted;
    for (int o = 0; o < overload_count_; ++o) {
        const std::string words(overloads_[o].parameters[parameter].requirement->words);
        if (wanted.find(words) != std::string::npos) continue;
        wanted += concat({wanted.empty() ? "" : " or ", words});
    }
    return Error(ErrorCode::bad_dtype, ErrorKind::value,
                 concat({call_prefix(op_.function.c_str(), op_.name_of(parameter)), "expected ", wanted, ", got ",
                         describe_tensor(inner_[parameter]), ": dtype differs"}));
}

/// Why no overload takes the arguments. Explains the closest one: the overload for which the most leading arguments have a
/// fitting dtype.
ISTHMUS_COLD Error OperatorCall::explain() {
    const OverloadFacts* nearest = overloads_;
    int reached = -1;
    for (int o = 0; o < overload_count_; ++o) {
        int count = 0;
        for (; count < op_.input_count; ++count) {
            const int p = op_.inputs[count].parameter;
            const Requirement* r = overloads_[o].parameters[p].requirement;
            if (r == nullptr || values_[p].tensor == nullptr) continue;
            if (!r->takes(inner_[p].dtype)) break;
        }
        if (count <= reached) continue;
        reached = count;
        nearest = overloads_ + o;
    }
    Match match(op_.function.c_str());
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_tensor() || values_[p].tensor == nullptr) continue;
        if (lacks_device(p))
            return Error(ErrorCode::bad_device, ErrorKind::value,
                         concat({call_prefix(op_.function.c_str(), op_.inputs[i].name.c_str()), "expected ",
                                 nearest->parameters[p].requirement->words, ", got ", describe_tensor(inner_[p]),
                                 ": this operator has no function for a GPU; register one with .cuda<f>()"}));
        // The first argument decides between the overloads; the others have to agree with it.
        if (i == reached && overload_count_ > 1 && p == op_.first_tensor) return explain_dtype(p);
        const Requirement& r = *nearest->parameters[p].requirement;
        auto checked = match.check_argument(op_.inputs[i].name.c_str(), inner_[p], flags_[p], said_only_ ? in_any_order(r) : r);
        if (!checked) return checked.error();
    }
    return make_error(ErrorCode::bad_argument, {op_.function, "(): the arguments do not fit"});
}

Result<void> OperatorCall::shape_of(int out, SizesList& shape) const {
    auto told = append_sizes(out, shape);
    if (!told || ISTHMUS_LIKELY(shape.size() <= static_cast<std::size_t>(max_ndim))) return told;
    return Error(ErrorCode::bad_layout, ErrorKind::value,
                 concat({call_prefix(op_.function.c_str(), op_.out_names[out].c_str()), "it would have ", shape.size(),
                         " dimensions; wanted at most ", max_ndim}));
}

Result<void> OperatorCall::append_sizes(int out, SizesList& shape) const {
    const Requirement& r = *overload_->parameters[op_.outs[out]].requirement;
    shape.clear();
    for (const std::int64_t size : lead_) shape.push_back(size);
    if (r.most_rank == 0) return {};
    const bool told = r.size_count >= 0 && op_.like[out] == op_.first_tensor;
    const DLTensor* like = told || op_.like[out] < 0 ? nullptr : values_[op_.like[out]].tensor;
    if (like != nullptr) {
        for (int d = 0; d < like->ndim; ++d) shape.push_back(like->shape[d]);
        return {};
    }
    if (r.size_count < 0) {  // it has no argument to take the sizes from: the gradient of one that was not given
        for (int d = 0; d < r.least_rank; ++d) shape.push_back(0);
        return {};
    }
    for (int d = 0; d < r.size_count; ++d) {
        const SizeSpec& spec = r.sizes[d];
        std::int64_t size = spec.size;
        if (!spec.name.empty()) {
            size = names_.size_of(spec.name);
            const int integer = size == dyn ? op_.integer_named(spec.name) : -1;
            if (integer >= 0) size = values_[integer].integer;
            if (integer >= 0 && size < 0)
                return make_error(ErrorCode::bad_argument, {call_prefix(op_.function.c_str(), op_.name_of(integer)), "found ",
                                                            size, "; wanted the size of a result, 0 or more"});
        }
        if (size == dyn && !told) size = 0;
        if (size == dyn)
            return make_error(ErrorCode::bad_argument, {op_.function, "(): the size ", spec.name, " of result '",
                                                        op_.out_names[out], "' is that of an argument that was not given"});
        shape.push_back(size);
    }
    return {};
}

Result<void> OperatorCall::set_out(int out, const DLTensor& t, Flags flags, const SizesList& shape) {
    const char* name = op_.out_names[out].c_str();
    if (ISTHMUS_UNLIKELY(is_elsewhere(t))) return explain_elsewhere(name, t);
    const bool same = static_cast<std::size_t>(t.ndim) == shape.size() && std::equal(shape.begin(), shape.end(), t.shape);
    if (!same)
        return Error(ErrorCode::bad_layout, ErrorKind::value,
                     concat({call_prefix(op_.function.c_str(), name), "expected sizes ",
                             sizes_text(shape.data(), static_cast<int>(shape.size())), ", got ", describe_tensor(t)}));
    const int p = op_.outs[out];
    set_tensor(p, t, flags);
    const Requirement& wanted = *overload_->parameters[p].requirement;
    const bool same_dtype = wanted.accepts == nullptr || inner_[p].dtype == like_dtype(out);
    if (ISTHMUS_LIKELY(meets(inner_[p], flags, wanted) && same_dtype)) return {};
    Requirement r = wanted;
    r.size_count = -1;  // the sizes were compared already
    Match match(op_.function.c_str());
    auto checked = match.check_argument(name, inner_[p], flags, r);
    if (!checked) return checked;
    return Error(ErrorCode::bad_dtype, ErrorKind::value,
                 concat({call_prefix(op_.function.c_str(), name), "expected ", DType(like_dtype(out)), ", got ",
                         describe_tensor(t), ": dtype differs"}));
}

/// One call for each place in the leading dimensions.
void OperatorCall::run_batched() {
    const int most = static_cast<int>(lead_.size());
    void* base[max_parameters];
    for (int p = 0; p < op_.parameter_count(); ++p) base[p] = inner_[p].data;
    for (const std::int64_t size : lead_)
        if (size == 0) return;
    std::int64_t place[max_ndim] = {};
    do {
        for (int p = 0; p < op_.parameter_count(); ++p) {
            if (!op_.parameters()[p].is_tensor() || values_[p].tensor == nullptr) continue;
            DLTensor& t = inner_[p];
            const int leads = leads_[p];
            const std::int64_t elements = elements_to(place + most - leads, t.shape - leads, t.strides - leads, leads);
            t.data = static_cast<char*>(base[p]) + elements * DType(t.dtype).itemsize();
        }
        overload_->call(values_);
    } while (next_place(place, lead_.data(), most));
}

/// Makes the stream's device the current one of this thread during the call.
Thrown OperatorCall::run_on_device() {
    const StreamDriver* driver = driver_of(stream_->device());
    if (driver == nullptr) return run_here();
    const CurrentDevice current(*driver, stream_->device().id);
    if (current) return run_here();
    const Error error =
        make_error(ErrorCode::producer_failed, {op_.function, "(): the driver could not go to ", stream_->device()});
    return Thrown{Thrown::Kind::error, error, error.what()};
}

Thrown OperatorCall::run_here() {
    const auto caught = [](Thrown::Kind kind, const char* text) { return Thrown{kind, std::nullopt, text}; };
    try {
        if (ISTHMUS_LIKELY(!batched_))
            overload_->call(values_);
        else
            run_batched();
        return {};
    } catch (const Error& error) {
        return Thrown{Thrown::Kind::error, error, error.what()};
    } catch (const std::bad_alloc&) {
        return caught(Thrown::Kind::memory, "no memory");
    } catch (const std::invalid_argument& error) {
        return caught(Thrown::Kind::value, error.what());
    } catch (const std::domain_error& error) {
        return caught(Thrown::Kind::value, error.what());
    } catch (const std::length_error& error) {
        return caught(Thrown::Kind::value, error.what());
    } catch (const std::out_of_range& error) {
        return caught(Thrown::Kind::index, error.what());
    } catch (const std::overflow_error& error) {
        return caught(Thrown::Kind::overflow, error.what());
    } catch (const std::exception& error) {
        return caught(Thrown::Kind::other, error.what());
#if defined(ISTHMUS_FORCED_UNWIND)
    } catch (__cxxabiv1::__forced_unwind&) {
        throw;
#endif
    } catch (...) {
        return caught(Thrown::Kind::other, "threw what is no std::exception");
    }
}

}  // namespace detail

ISTHMUS_END
