// An operator as a foreign function of XLA: what jax.jit calls.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>
#include <array>
#include <forward_list>
#include <stdexcept>

#include "xla_ffi.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// XLA's own error in place of a stream, which is returned to XLA.
struct XlaRefused : std::exception {
    explicit XlaRefused(xla::Error* answer) noexcept : error(answer) {}
    xla::Error* error;
};

/// One call of XLA, on one of its threads, without Python. isthmus.operators passes these attributes: "how" has a
/// letter for each input, t and s for a tensor and a scalar among the operands, l for a list of tensors there, whose
/// length is the attribute "p<place>", a for an attribute "p<place>", n for an argument that was not given; "rank" is
/// that of the first operand without batch dimensions, of which all operands have the same number. Behind the
/// operator's results is one for each operand that is written.
class XlaCall {
public:
    XlaCall(const OperatorDefinition& op, const xla::CallFrame& frame) noexcept : op_(op), frame_(frame) {}

    /// For operands on a GPU: the work goes to the stream that XLA names. Throws XlaRefused.
    void go_to_device() {
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
    void run() {
        find_batch();
        for (int d = 0; d < batch_ndim_; ++d)
            if (batch_[d] == 0) return;
        copy_written();
        if (!scalars_vary_) return run_at(nullptr);
        std::int64_t place[max_ndim] = {};
        do run_at(place);  // each place has its own scalars
        while (next_place(place, batch_, batch_ndim_));
    }

private:
    [[noreturn]] void refuse(Message why) const { throw std::invalid_argument(concat({op_.function, "(): ", why})); }
    [[noreturn]] void refuse_argument(const std::string& name, Message why) const {
        refuse({"argument '", name, "': ", why});
    }
    const xla::Buffer& operand(int i) const { return *static_cast<const xla::Buffer*>(frame_.arguments.values[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_.results.values[i]); }
    /// "string", "number" and "list" are the words for its type.
    template <class T>
    const T& attribute(std::string_view name, xla::AttributeType type, const char* word) const {
        const xla::Attributes& all = frame_.attributes;
        std::int64_t i = 0;
        while (i < all.size && std::string_view(all.names[i]->data, all.names[i]->size) != name) ++i;
        if (i == all.size) refuse({"the attribute '", name, "' is missing; expected a call made by isthmus.operators"});
        if (all.types[i] != type) refuse({"the attribute '", name, "' is not a ", word});
        return *static_cast<const T*>(all.values[i]);
    }
    std::string_view text(std::string_view name) const {
        const auto& span = attribute<xla::ByteSpan>(name, xla::string, "string");
        return {span.data, span.size};
    }
    const xla::Scalar& scalar(std::string_view name) const {
        return attribute<xla::Scalar>(name, xla::scalar, "number");
    }
    [[noreturn]] void refuse_on_device(int input) const {
        refuse_argument(op_.inputs[input].name,
                        "found a traced value, which is in the GPU's memory; expected one that is known while JAX "
                        "traces (static_argnames of jax.jit)");
    }
    static Piece sizes_of(const xla::Buffer& buffer, int from = 0) {
        return sizes_text(buffer.dims + from, static_cast<int>(buffer.rank) - from);
    }
    char how(int input) const { return how_[static_cast<std::size_t>(input)]; }
    void set_scalar(ParameterValue& value, int input, int dtype, const void* data) const {
        const ParameterKind kind = op_.input_facts(input).kind;
        if (read_scalar(value, kind, xla::dtype_of(dtype), data)) {
            if (op_.input_facts(input).optional) value.set_scalar_given();
            return;
        }
        const bool number = kind == ParameterKind::number;
        refuse_argument(op_.inputs[input].name, {"expected ",
                                                 number                           ? "a number"
                                                 : kind == ParameterKind::boolean ? "True or False"
                                                                                  : "an integer",
                                                 number ? ", got an array of " : ", got ", xla::dtype_of(dtype)});
    }
    void set_attribute(ParameterValue& value, int input) const {
        const std::string name = concat({"p", input});
        const ParameterKind kind = op_.input_facts(input).kind;
        if (kind == ParameterKind::text) {
            const std::string_view given = text(name);
            value.text = {given.data() != nullptr ? given.data() : "", given.size()};
        } else if (kind == ParameterKind::integers) {
            const auto& given = attribute<xla::Array>(name, xla::array, "list");
            static constexpr std::int64_t none = 0;
            if (given.dtype != xla::int64_number && given.size != 0)
                refuse_argument(op_.inputs[input].name, "the attribute is not of int64");
            value.integers = {given.size != 0 ? static_cast<const std::int64_t*>(given.data) : &none, given.size};
        } else if (kind == ParameterKind::dtype) {
            DType dtype;
            if (!DType::parse(text(name), dtype))
                refuse_argument(op_.inputs[input].name, {"expected a dtype, got '", text(name), "'"});
            value.dtype = dtype;
            value.set_scalar_given();
        } else {
            const xla::Scalar& given = scalar(name);
            set_scalar(value, input, given.dtype, given.value);
        }
    }
    void check_letters() const {
        if (static_cast<int>(how_.size()) != op_.input_count)
            refuse("the attribute 'how' has not a letter for each input");
        for (int i = 0; i < op_.input_count; ++i) {
            const ParameterFacts& facts = op_.input_facts(i);
            const char c = how(i);
            const bool is_word = facts.kind == ParameterKind::text || facts.kind == ParameterKind::dtype ||
                                 facts.kind == ParameterKind::integers;
            if (facts.is_list() && c == 'l' && length_of(i) >= 0) continue;
            const bool scalar = facts.requirement == nullptr && (c == 'a' || (c == 's' && !is_word));
            if (scalar || (facts.is_tensor() && c == 't') || (c == 'n' && facts.optional)) continue;
            refuse_argument(op_.inputs[i].name, {"the attribute 'how' has '", std::string(1, c),
                                                 "', which is not for an argument of its kind"});
        }
    }
    /// Of a list of tensors.
    std::int64_t length_of(int input) const {
        const xla::Scalar& length = scalar(concat({"p", input}));
        if (length.dtype != xla::int64_number) refuse_argument(op_.inputs[input].name, "its length is not an int64");
        return *static_cast<const std::int64_t*>(length.value);
    }
    /// How many operands an input has.
    std::int64_t operands_of(int input) const {
        return how(input) == 'l' ? length_of(input) : how(input) == 't' || how(input) == 's' ? 1 : 0;
    }
    /// How many batch dimensions vmap has added, and their sizes. Not of an operator with lists of tensors, whose calls
    /// JAX makes one by one.
    void find_batch() {
        how_ = text("how");
        check_letters();
        std::int64_t operands = 0, written = 0;
        for (int i = 0; i < op_.input_count; ++i) {
            operands += operands_of(i);
            written += is_written(i) ? operands_of(i) : 0;
        }
        if (frame_.arguments.size != operands || frame_.results.size != op_.out_count + written)
            refuse("XLA's operands and results are not those of this operator");
        if (operands == 0 || op_.has_lists) return;
        const xla::Scalar& given = scalar("rank");
        if (given.dtype != xla::int64_number) refuse("the attribute 'rank' is not an int64");
        const std::int64_t rank = *static_cast<const std::int64_t*>(given.value), whole = operand(0).rank;
        if (rank < 0 || rank > whole || whole > max_ndim)
            refuse("the attribute 'rank' is not that of the first operand");
        batch_ndim_ = static_cast<int>(whole - rank);
        for (int d = 0; d < batch_ndim_; ++d) batch_[d] = 1;
        int next = 0;
        for (int i = 0; i < op_.input_count; ++i) {
            const char c = how(i);
            if (c != 't' && c != 's') continue;
            const xla::Buffer& buffer = operand(next++);
            for (int d = 0; d < batch_ndim_ && d < buffer.rank; ++d) {
                if (batch_[d] == 1) batch_[d] = buffer.dims[d];
                if (c == 's' && buffer.dims[d] != 1) scalars_vary_ = true;
            }
            check_batch(buffer, op_.inputs[i].name);
            if (c == 's' && buffer.rank != batch_ndim_)
                refuse_argument(op_.inputs[i].name,
                                {"expected a scalar, got an array of sizes ", sizes_of(buffer, batch_ndim_)});
        }
        for (int i = 0; i < op_.out_count; ++i) {
            const xla::Buffer& buffer = result(i);
            check_batch(buffer, op_.out_names[i]);
            for (int d = 0; d < batch_ndim_; ++d)
                if (buffer.dims[d] != batch_[d])
                    refuse_argument(op_.out_names[i], {"expected the leading sizes ", sizes_text(batch_, batch_ndim_),
                                                       ", got sizes ", sizes_of(buffer)});
        }
    }
    bool is_written(int input) const { return op_.input_facts(input).is_written() && how(input) != 'n'; }
    /// XLA gives an operand that is written and its result the same memory; if it did not, the result is a copy.
    void copy_written() const {
        int next = 0, written = op_.out_count;
        for (int i = 0; i < op_.input_count; ++i) {
            for (std::int64_t k = operands_of(i); k > 0; --k) {
                const xla::Buffer& given = operand(next++);
                if (is_written(i)) copy_written(op_.inputs[i].name, given, result(written++));
            }
        }
    }
    void copy_written(const std::string& name, const xla::Buffer& given, const xla::Buffer& made) const {
        if (made.rank != given.rank || !std::equal(given.dims, given.dims + given.rank, made.dims) ||
            made.dtype != given.dtype)
            refuse_argument(name, {"expected a result of sizes ", sizes_of(given), ", got ", sizes_of(made)});
        if (made.data == given.data) return;
        if (stream_) refuse_argument(name, "XLA did not give its result the same memory");
        std::int64_t strides[max_ndim];
        std::memcpy(made.data, given.data,
                    static_cast<std::size_t>(layout::nbytes(describe(given, nullptr, strides), false)));
    }
    /// Whether a buffer has the batch dimensions, each of the common size or of size 1.
    void check_batch(const xla::Buffer& buffer, const std::string& name) const {
        const auto refuse_it = [&](Message expected) {
            refuse_argument(name, {"expected ", expected, ", got sizes ", sizes_of(buffer)});
        };
        if (buffer.rank < batch_ndim_) refuse_it({batch_ndim_, " leading dimensions"});
        for (int d = 0; d < batch_ndim_; ++d)
            if (buffer.dims[d] != 1 && buffer.dims[d] != batch_[d])
                refuse_it({"the leading sizes ", sizes_text(batch_, batch_ndim_)});
    }
    /// The descriptor of a buffer; with a place, of the part of the buffer there.
    DLTensor describe(const xla::Buffer& buffer, const std::int64_t* place, std::int64_t* strides) const {
        const DType dtype = xla::dtype_of(buffer.dtype);
        if (dtype.bits() == 0 || buffer.rank > max_ndim)
            refuse({"XLA's dtype ", buffer.dtype, " is not one of DLPack's"});
        const auto rank = static_cast<int>(buffer.rank);
        (void)layout::row_major(buffer.dims, rank, strides);
        DLTensor t{buffer.data, device_, rank, dtype, buffer.dims, strides, 0};
        if (place == nullptr) return t;
        t.data =
            static_cast<char*>(buffer.data) + elements_to(place, buffer.dims, strides, batch_ndim_) * dtype.itemsize();
        t.ndim -= batch_ndim_;
        t.shape += batch_ndim_;
        t.strides += batch_ndim_;
        return t;
    }
    void run_at(const std::int64_t* place) {
        // Without batch dimensions at a place: "rank" counts those too that the operator broadcasts itself.
        OperatorCall call(op_, place == nullptr ? batch_ndim_ : 0);
        std::int64_t strides[max_parameters][max_ndim];
        std::forward_list<std::array<std::int64_t, max_ndim>> list_strides;
        int next = 0, written = op_.out_count;
        for (int i = 0; i < op_.input_count; ++i) {
            const int p = op_.inputs[i].parameter;
            const ParameterFacts& facts = op_.parameters()[p];
            if (how(i) == 't' && facts.is_tensor()) {
                const xla::Buffer& given = operand(next++);
                const DLTensor t = describe(is_written(i) ? result(written++) : given, place, strides[p]);
                if (facts.kind == ParameterKind::random && stream_) refuse_on_device(i);
                if (facts.kind == ParameterKind::sizes)
                    call.set_sizes(p, t, 0);
                else
                    call.set_tensor(p, t, 0);
            } else if (how(i) == 'l') {
                for (std::int64_t k = length_of(i); k > 0; --k) {
                    const xla::Buffer& given = operand(next++);
                    const xla::Buffer& memory = is_written(i) ? result(written++) : given;
                    call.list(p).add(describe(memory, nullptr, list_strides.emplace_front().data()), 0);
                }
            } else if (how(i) == 's') {
                if (stream_) refuse_on_device(i);
                const DLTensor t = describe(operand(next), place, strides[p]);
                set_scalar(call.value(p), i, operand(next++).dtype, t.data);
            } else if (how(i) == 'n') {
                call.set_absent(p);
            } else {
                set_attribute(call.value(p), i);
            }
        }
        if (op_.has_bounds) call.set_padded();
        if (stream_) call.go_to(*stream_).value();
        call.choose().value();
        SizesList shape;
        for (int i = 0; i < op_.out_count; ++i) {
            call.shape_of(i, shape).value();
            call.set_out(i, describe(result(i), place, strides[op_.outs[i]]), 0, shape).value();
        }
        const CapturedException captured = call.run();
        if (captured.kind() == CapturedException::Kind::error) throw captured.error();
        if (captured.kind() == CapturedException::Kind::memory) throw std::bad_alloc();
        if (captured) throw std::runtime_error(concat({op_.function, "(): ", captured.text()}));
    }

    const OperatorDefinition& op_;
    const xla::CallFrame& frame_;
    std::string_view how_;
    int batch_ndim_ = 0;
    std::int64_t batch_[max_ndim];
    bool scalars_vary_ = false;
    Device device_ = Device::cpu();
    std::optional<Stream> stream_;
};

xla::Error* make_xla_error(const xla::Api* api, const std::string& function,
                           const CapturedException& captured) noexcept {
    using Kind = CapturedException::Kind;
    const bool memory = captured.kind() == Kind::memory;
    const bool invalid = captured.kind() == Kind::error || captured.kind() == Kind::value;
    const std::string text = memory ? concat({function, "(): ", captured.text()}) : captured.text();
    xla::ErrorCreateArgs args{sizeof args, nullptr, text.c_str(),
                              memory    ? xla::resource_exhausted
                              : invalid ? xla::invalid_argument
                                        : xla::unknown};
    return api->create_error(&args);
}

}  // namespace

void* run_for_xla(const OperatorDefinition& op, void* call_frame, bool on_device) noexcept {
    auto* frame = static_cast<xla::CallFrame*>(call_frame);
    if (frame->extensions != nullptr && frame->extensions->type == xla::Extension::metadata) {
        xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame->extensions)->metadata;
        metadata.api_version.major_version = xla::api_major;
        metadata.api_version.minor_version = xla::api_minor;
        metadata.traits = 0;
        return nullptr;
    }
    xla::Error* refused = nullptr;
    const CapturedException captured = capture([&] {
        try {
            XlaCall call(op, *frame);
            if (on_device) call.go_to_device();
            call.run();
        } catch (const XlaRefused& answer) {
            refused = answer.error;
        }
    });
    return captured ? make_xla_error(frame->api, op.function, captured) : refused;
}

}  // namespace detail

ISTHMUS_END
