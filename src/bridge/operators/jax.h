// An operator as a foreign function of XLA: what jax.jit calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call.h"
#include "xla_ffi.h"

ISTHMUS_BEGIN

namespace detail {

// run_for_xla() answers one call of XLA, on one of its threads, without Python. isthmus.operators passes these attributes:
// "how" has a letter for each input, t and s for a tensor and a scalar among the operands, a for an attribute "p<place>", n for
// an argument that was not given; "rank" is that of the first operand without leading dimensions, of which all operands have
// the same number.

/// XLA's own error in place of a stream, which is returned to XLA.
struct XlaRefused : std::exception {
    explicit XlaRefused(xla::Error* answer) noexcept : error(answer) {}
    xla::Error* error;
};

/// The arguments of one call as XLA hands them over.
class XlaCall {
public:
    XlaCall(const OperatorDefinition& op, const xla::CallFrame& frame) noexcept : op_(op), frame_(frame) {}

    /// For operands on a GPU: the work goes to the stream that XLA names. Throws XlaRefused.
    void go_to_device();
    void run() {
        find_leads();
        for (int i = 0; i < lead_count_; ++i)
            if (lead_[i] == 0) return;
        if (!scalars_vary_) return run_at(nullptr);
        std::int64_t place[max_ndim] = {};
        do run_at(place);  // each place has its own scalars
        while (next_place(place, lead_, lead_count_));
    }

private:
    [[noreturn]] void refuse(Message why) const { throw std::invalid_argument(concat({op_.function, "(): ", why})); }
    const xla::Buffer& operand(int i) const { return *static_cast<const xla::Buffer*>(frame_.arguments.values[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_.results.values[i]); }
    int attribute(std::string_view name) const {
        const xla::Attributes& all = frame_.attributes;
        for (std::int64_t i = 0; i < all.size; ++i)
            if (std::string_view(all.names[i]->data, all.names[i]->size) == name) return static_cast<int>(i);
        refuse({"the attribute '", name, "' is missing; wanted a call made by isthmus.operators"});
    }
    std::string_view text(std::string_view name) const {
        const int i = attribute(name);
        if (frame_.attributes.types[i] != xla::string) refuse({"the attribute '", name, "' is no string"});
        const auto& span = *static_cast<const xla::ByteSpan*>(frame_.attributes.values[i]);
        return {span.data, span.size};
    }
    const xla::Scalar& scalar(std::string_view name) const {
        const int i = attribute(name);
        if (frame_.attributes.types[i] != xla::scalar) refuse({"the attribute '", name, "' is no number"});
        return *static_cast<const xla::Scalar*>(frame_.attributes.values[i]);
    }
    double number(int input, int dtype, const void* value) const;
    void set_scalar(ParameterValue& value, int input, int dtype, const void* data) const;
    void check_letters() const;
    void find_leads();
    void check_lead(const xla::Buffer& buffer, const char* name) const;
    DLTensor describe(const xla::Buffer& buffer, const std::int64_t* place, std::int64_t* strides) const;
    void run_at(const std::int64_t* place);

    const OperatorDefinition& op_;
    const xla::CallFrame& frame_;
    std::string_view how_;
    int lead_count_ = 0;
    std::int64_t lead_[max_ndim];
    bool scalars_vary_ = false;
    Device device_ = Device::cpu();
    std::optional<Stream> stream_;
};

inline void XlaCall::go_to_device() {
    const xla::Api& api = *frame_.api;
    xla::StreamGetArgs stream{sizeof stream, nullptr, frame_.context, nullptr};
    if (xla::Error* error = api.get_stream(&stream)) throw XlaRefused(error);
    int id = 0;
    const StreamDriver* driver = driver_of(Device::cuda());
    if (api.has_device_ordinal()) {
        xla::DeviceOrdinalGetArgs ordinal{sizeof ordinal, nullptr, frame_.context, 0};
        if (xla::Error* error = api.get_device_ordinal(&ordinal)) throw XlaRefused(error);
        id = ordinal.ordinal;
    } else if (driver != nullptr) {
        driver->get_device(&id);
    }
    device_ = Device::cuda(id);
    stream_.emplace(device_, stream_number(device_, stream.stream));
}

inline double XlaCall::number(int input, int dtype, const void* value) const {
    switch (dtype) {
        case xla::boolean_number:
            return *static_cast<const bool*>(value) ? 1 : 0;
        case xla::int32_number:
            return *static_cast<const std::int32_t*>(value);
        case xla::int64_number:
            return static_cast<double>(*static_cast<const std::int64_t*>(value));
        case xla::float32_number:
            return static_cast<double>(*static_cast<const float*>(value));
        case xla::float64_number:
            return *static_cast<const double*>(value);
        default:
            refuse({"argument '", op_.inputs[input].name, "': expected a number, got an array of ", xla::dtype_of(dtype)});
    }
}

inline void XlaCall::set_scalar(ParameterValue& value, int input, int dtype, const void* data) const {
    const ParameterKind kind = op_.parameters()[op_.inputs[input].parameter].kind;
    if (kind == ParameterKind::number)
        value.number = number(input, dtype, data);
    else if (kind == ParameterKind::integer && dtype == xla::int64_number)
        value.integer = *static_cast<const std::int64_t*>(data);
    else if (kind == ParameterKind::integer && dtype == xla::int32_number)
        value.integer = *static_cast<const std::int32_t*>(data);
    else if (kind == ParameterKind::boolean && dtype == xla::boolean_number)
        value.boolean = *static_cast<const bool*>(data);
    else
        refuse({"argument '", op_.inputs[input].name, "': expected ",
                kind == ParameterKind::boolean ? "True or False" : "an integer", ", got ", xla::dtype_of(dtype)});
}

inline void XlaCall::check_letters() const {
    if (static_cast<int>(how_.size()) != op_.input_count) refuse("the attribute 'how' has not a letter for each input");
    for (int i = 0; i < op_.input_count; ++i) {
        const ParameterFacts& facts = op_.parameters()[op_.inputs[i].parameter];
        const char c = how_[static_cast<std::size_t>(i)];
        const bool scalar = !facts.is_tensor() && (c == 'a' || (c == 's' && facts.kind != ParameterKind::text));
        if (scalar || (facts.is_tensor() && (c == 't' || (c == 'n' && facts.optional)))) continue;
        refuse({"argument '", op_.inputs[i].name, "': the attribute 'how' has '", std::string(1, c),
                "', which is not for an argument of its kind"});
    }
}

/// Whether a buffer has the leading dimensions, each of the common size or of size 1.
inline void XlaCall::check_lead(const xla::Buffer& buffer, const char* name) const {
    const auto refuse_it = [&](const std::string& wanted) {
        refuse({"argument '", name, "': expected ", wanted, ", got sizes ",
                sizes_text(buffer.dims, static_cast<int>(buffer.rank))});
    };
    if (buffer.rank < lead_count_) refuse_it(concat({lead_count_, " leading dimensions"}));
    for (int d = 0; d < lead_count_; ++d)
        if (buffer.dims[d] != 1 && buffer.dims[d] != lead_[d])
            refuse_it(concat({"the leading sizes ", sizes_text(lead_, lead_count_)}));
}

/// How many leading dimensions vmap has added, and how long they are.
inline void XlaCall::find_leads() {
    how_ = text("how");
    check_letters();
    int operands = 0;
    for (const char c : how_) operands += c == 't' || c == 's';
    if (frame_.arguments.size != operands || frame_.results.size != op_.out_count)
        refuse("XLA's operands and results are not those of this operator");
    if (operands == 0) return;
    const xla::Scalar& said = scalar("rank");
    if (said.dtype != xla::int64_number) refuse("the attribute 'rank' is not an int64");
    const std::int64_t rank = *static_cast<const std::int64_t*>(said.value), whole = operand(0).rank;
    if (rank < 0 || rank > whole || whole > max_ndim) refuse("the attribute 'rank' is not that of the first operand");
    lead_count_ = static_cast<int>(whole - rank);
    for (int d = 0; d < lead_count_; ++d) lead_[d] = 1;
    int next = 0;
    for (int i = 0; i < op_.input_count; ++i) {
        const char c = how_[static_cast<std::size_t>(i)];
        if (c != 't' && c != 's') continue;
        const xla::Buffer& buffer = operand(next++);
        for (int d = 0; d < lead_count_ && d < buffer.rank; ++d) {
            if (lead_[d] == 1) lead_[d] = buffer.dims[d];
            if (c == 's' && buffer.dims[d] != 1) scalars_vary_ = true;
        }
        check_lead(buffer, op_.inputs[i].name.c_str());
        if (c == 's' && buffer.rank != lead_count_)
            refuse({"argument '", op_.inputs[i].name, "': expected a scalar, got an array of sizes ",
                    sizes_text(buffer.dims + lead_count_, static_cast<int>(buffer.rank - lead_count_))});
    }
    for (int i = 0; i < op_.out_count; ++i) {
        check_lead(result(i), op_.out_names[i].c_str());
        for (int d = 0; d < lead_count_; ++d)
            if (result(i).dims[d] != lead_[d])
                refuse({"argument '", op_.out_names[i], "': expected the leading sizes ", sizes_text(lead_, lead_count_),
                        ", got sizes ", sizes_text(result(i).dims, static_cast<int>(result(i).rank))});
    }
}

/// The descriptor of a buffer; with a place, of the part of the buffer there.
inline DLTensor XlaCall::describe(const xla::Buffer& buffer, const std::int64_t* place, std::int64_t* strides) const {
    const DType dtype = xla::dtype_of(buffer.dtype);
    if (dtype.bits() == 0 || buffer.rank > max_ndim) refuse({"XLA's dtype ", buffer.dtype, " is not one of DLPack's"});
    const auto rank = static_cast<int>(buffer.rank);
    (void)layout::row_major(buffer.dims, rank, strides);
    DLTensor t{buffer.data, device_, rank, dtype, buffer.dims, strides, 0};
    if (place == nullptr) return t;
    t.data = static_cast<char*>(buffer.data) + elements_to(place, buffer.dims, strides, lead_count_) * dtype.itemsize();
    t.ndim -= lead_count_;
    t.shape += lead_count_;
    t.strides += lead_count_;
    return t;
}

inline void XlaCall::run_at(const std::int64_t* place) {
    // Without leading dimensions: those that the operator broadcasts itself are said by "rank" too.
    OperatorCall call(op_, place == nullptr ? lead_count_ : 0);
    std::int64_t strides[max_parameters][max_ndim];
    int next = 0;
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        const ParameterFacts& facts = op_.parameters()[p];
        if (how_[static_cast<std::size_t>(i)] == 't' && facts.is_tensor()) {
            call.set_tensor(p, describe(operand(next++), place, strides[p]), 0);
        } else if (how_[static_cast<std::size_t>(i)] == 's') {
            if (stream_)
                refuse({"argument '", op_.inputs[i].name,
                        "': found a traced value, which is in the GPU's memory; wanted one that is known while JAX "
                        "traces (static_argnames of jax.jit)"});
            const DLTensor t = describe(operand(next), place, strides[p]);
            set_scalar(call.value(p), i, operand(next++).dtype, t.data);
        } else if (facts.is_tensor()) {
            call.set_absent(p);
        } else if (facts.kind == ParameterKind::text) {
            const std::string_view said = text(concat({"p", i}));
            call.value(p).text = {said.data(), said.size()};
        } else {
            const xla::Scalar& said = scalar(concat({"p", i}));
            set_scalar(call.value(p), i, said.dtype, said.value);
        }
    }
    if (stream_) call.go_to(*stream_).value();
    call.choose().value();
    SizesList shape;
    for (int i = 0; i < op_.out_count; ++i) {
        call.shape_of(i, shape).value();
        call.set_out(i, describe(result(i), place, strides[op_.outs[i]]), 0, shape).value();
    }
    const Thrown thrown = call.run();
    if (thrown.kind == Thrown::Kind::error && thrown.error) throw Error(*thrown.error);
    if (thrown.kind == Thrown::Kind::memory) throw std::bad_alloc();
    if (thrown) throw std::runtime_error(concat({op_.function, "(): ", thrown.text}));
}

inline xla::Error* make_xla_error(const xla::Api* api, xla::ErrorCode code, const char* text) noexcept {
    xla::ErrorCreateArgs args{sizeof args, nullptr, text, code};
    return api->create_error(&args);
}

void* run_for_xla(const OperatorDefinition& op, void* call_frame, bool on_device) noexcept {
    auto* frame = static_cast<xla::CallFrame*>(call_frame);
    if (frame->extensions != nullptr && frame->extensions->type == xla::Extension::metadata) {
        xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame->extensions)->metadata;
        metadata.api_version.major_version = xla::api_major;
        metadata.api_version.minor_version = xla::api_minor;
        metadata.traits = 0;
        return nullptr;
    }
    try {
        XlaCall call(op, *frame);
        if (on_device) call.go_to_device();
        call.run();
        return nullptr;
    } catch (const XlaRefused& refused) {
        return refused.error;
    } catch (const std::bad_alloc&) {
        return make_xla_error(frame->api, xla::resource_exhausted, concat({op.function, "(): no memory"}).c_str());
    } catch (const std::invalid_argument& error) {
        return make_xla_error(frame->api, xla::invalid_argument, error.what());
    } catch (const Error& error) {
        return make_xla_error(frame->api, xla::invalid_argument, error.what());
    } catch (const std::exception& error) {
        return make_xla_error(frame->api, xla::unknown, error.what());
    }
}

}  // namespace detail

ISTHMUS_END
