// One import in progress: the facts about the type, the options, and the Borrowed that it builds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/errors.h"  // Python.h must come before any standard header

#include <isthmus/core/error.h>
#include <isthmus/python/api.h>
#include "../../core/validate.h"
#include "../runtime/object_owner.h"
#include "../runtime/streams.h"
#include "dlpack_method/call.h"

ISTHMUS_BEGIN

namespace detail {

/// One row each in isthmus/python/dispatch/protocols.h, which says what they are.
enum class Protocol : std::uint8_t {
    none,
    isthmus_tensor,
    buffer_or_dlpack,
    torch_stable,
    torch_exchange,
    torch_method,
    numpy,
    numpy_scalar,
    openvino,
    exchange_api,
    dlpack_method,
    cuda_array_interface,
    buffer,
    array_interface,
    arrow_device_array,
    arrow_array,
    arrow_stream,
    capsule,
};

/// A type whose instances are imported: what the first look at it found.
struct ProducerType {
    PyTypeObject* type = nullptr;
    unsigned int version = 0;                    ///< CPython's tag of this very state of this very type; 0: it has none
    std::uint32_t packages = ~std::uint32_t{0};  ///< by the bits of dispatch/packages.h: those its bases may be of
    Protocol protocol = Protocol::none;
    Framework framework = Framework::none;  ///< in which a result belongs that is to be like an instance
    bool is_array = false;  ///< instances are arrays of that framework, not only something of its package
    bool complete = true;   ///< false: a module that would tell more is not loaded now, so this is not to be remembered
    bool immutable = false;    ///< the memory must not be written, though its protocol cannot say so
    bool only_dlpack = false;  ///< no other protocol is used: neither for the memory, nor for whether it may be written
    bool own_dlpack = false;   ///< of a subclass of an array, whose `__dlpack__` counts in place of the array's memory
    bool is_eager_tensor = false;  ///< TensorFlow's, whose dtype and device are read before its memory
    bool known_torch = false;      ///< derived from torch.Tensor as libtorch itself knows it
    bool converts = false;         ///< may answer each question with a copy, for which its protocol has no word
    bool is_known = false;         ///< a class that is known to share its memory, if `converts` does not say otherwise
    const DLPackExchangeAPI* api = nullptr;
    const char* refusal = nullptr;  ///< why instances are not taken, or NULL
    const char* hint = nullptr;     ///< what to call on an instance to get a tensor, or NULL
};

struct BorrowedBuilder {
    Borrowed& b;

    DLTensor& dl() const noexcept { return b.dl_; }
    Flags& flags() const noexcept { return b.flags_; }
    Py_buffer& buffer() const noexcept { return b.buffer_; }
    /// Room for max_ndim sizes and as many strides.
    std::int64_t* shape() const noexcept { return b.shape_; }
    std::int64_t* strides() const noexcept { return b.strides_; }

    /// After flags(), as set_producer().
    void set_stream(std::int64_t stream) const noexcept {
        b.stream_.number = stream;
        b.flags_ = (b.flags_ & ~ordering_flags) | stream_flag;
    }
    /// The producer alone knows its stream.
    void set_producer(PyObject* producer) const noexcept {
        b.stream_.producer = producer;
        b.flags_ = (b.flags_ & ~ordering_flags) | producer_flag;
    }

    /// The object that alone knows the stream. Only with producer_flag.
    static PyObject* producer_of(const Borrowed& b) noexcept { return static_cast<PyObject*>(b.stream_.producer); }

    void hold(void* owner, const OwnerOps& ops) const noexcept {
        b.owner_ = owner;
        b.ops_ = &ops;
    }
    /// Holds what buffer() was filled with.
    void hold_buffer() const noexcept { hold(nullptr, python_owners->buffer); }
    /// Keeps the Python object itself: for an owning import by a protocol without a release.
    void hold_object(PyObject* object) const noexcept { hold(new_reference(object), python_owners->array_object); }
    /// Takes over the flags that a block has beside its descriptor.
    void share_flags(const Block* block) const noexcept {
        b.flags_ = block->flags & (flag::dlpack_known | ordering_flags);
        if (ISTHMUS_UNLIKELY(block->flags & ordering_flags)) b.stream_ = block->stream;
    }
    /// Holds a block, and describes the same memory.
    void hold_block(Block* block) const noexcept {
        b.dl_ = block->dl;
        share_flags(block);
        hold(block, shared_block_ops);
    }
    /// The owner that is held; NULL if there is none, or a buffer.
    const void* owner() const noexcept { return b.ops_ != nullptr ? b.owner_ : nullptr; }
    /// The block that hold_block() was given; NULL if something else is held.
    Block* held_block() const noexcept { return b.ops_ == &shared_block_ops ? static_cast<Block*>(b.owner_) : nullptr; }
    /// Copies sizes and strides from the producer's memory into the Borrowed.
    ISTHMUS_ALWAYS_INLINE void keep_dims() const noexcept {
        DLTensor& t = b.dl_;
        for (int i = 0; i < t.ndim; ++i) {
            b.shape_[i] = t.shape[i];
            b.strides_[i] = t.strides[i];
        }
        t.shape = b.shape_;
        t.strides = b.strides_;
    }
    /// Releases what is held.
    void reset() const noexcept { b.reset(); }
    /// Drops what is held without releasing it: something else now owns it.
    void forget() const noexcept { b.ops_ = nullptr; }

    /// Moves the held owner into a block, together with a reference to `source`, the imported object, if that is not
    /// what is held. False (and nothing moved) when memory is out.
    ISTHMUS_ALWAYS_INLINE bool into_block(Block*& out, PyObject* source) const noexcept {
        if (Block* held = held_block()) {
            out = held;
            b.ops_ = nullptr;
            return true;
        }
        const OwnerOps* ops = b.ops_ != nullptr ? b.ops_ : &no_owner_ops;
        const bool has_buffer = ops->source == source_of_buffer;  // known when compiling, if the owner is of libtorch
        // A buffer may belong to another object than the one asked (TensorFlow's belongs to its ndarray); the way back
        // needs the imported one.
        const bool has_source = source != nullptr && (ops->array == nullptr || (has_buffer && b.buffer_.obj != source));
        const std::size_t extra = (has_buffer ? sizeof(Py_buffer) : 0) + (has_source ? sizeof(Sourced) : 0);
        Block* block = allocate_block(b.dl_.ndim, extra);
        if (ISTHMUS_UNLIKELY(block == nullptr)) return false;
        describe(block, b.dl_, b.flags_);
        if (ISTHMUS_UNLIKELY(b.flags_ & ordering_flags)) block->stream = b.stream_;
        block->owner = b.owner_;
        block->ops = ops;
        char* behind = reinterpret_cast<char*>(block->dims() + 2 * b.dl_.ndim);
        if (has_buffer) {
            auto* buffer = ::new (behind) Py_buffer;
            move_buffer(*buffer, b.buffer_);
            block->owner = buffer;
        }
        if (has_source) {
            Py_INCREF(source);
            block->owner = ::new (behind + (has_buffer ? sizeof(Py_buffer) : 0)) Sourced{block->owner, ops, source};
            block->ops = &python_owners->sourced;
        }
        b.ops_ = nullptr;
        out = announce(block);
        return true;
    }
};

/// Room for the Error of an import. Free of cost if nothing fails: no Error is made or destroyed.
class ErrorSlot {
public:
    ErrorSlot() noexcept {}
    ~ErrorSlot() {}
    ErrorSlot(const ErrorSlot&) = delete;
    ErrorSlot& operator=(const ErrorSlot&) = delete;

    void put(Error&& error) noexcept { ::new (&error_) Error(std::move(error)); }
    /// The error that was put in: look at it, or take it out once.
    const Error& look() const noexcept { return error_; }
    Error take() noexcept {
        Error error(std::move(error_));
        error_.~Error();
        return error;
    }

private:
    union {
        Error error_;
    };
};

/// The rest of an import beside the tensor: an error if it failed, and a reference that lasts until the result is made.
struct ImportOutcome {
    ErrorSlot error;
    Ref alive;
};

/// What an import leaves for the copy that is made of it: such an import also takes memory that cannot be shared for
/// its layout alone.
struct ReadForCopy {
    /// Elements whose strides are not whole numbers of them are described as bytes, with one dimension more.
    bool as_bytes = false;
    DType dtype{};  ///< of those elements
};

struct ImportRequest {
    PyObject* object;
    const ImportOptions& options;
    BorrowedBuilder out;
    bool owning;  ///< the result outlives the call: hold what keeps the memory alive
    const ProducerType& producer;
    ImportOutcome& outcome;
    bool immutable = producer.immutable;  ///< the memory is read-only whatever the protocol says
    ReadForCopy* for_copy = nullptr;      ///< a copy is made of the result, which then is released
    bool ask_again = producer.converts;   ///< the memory may be made for the question alone (is_temporary)

    /// By a protocol that has no word for a copy: of a class that is not known, a second answer tells.
    void doubt() noexcept { ask_again = ask_again || !producer.is_known; }

    /// For protocols that run the producer's code, which may drop the only reference to the object: the caller's.
    void keep_alive() {
        if (!outcome.alive) outcome.alive = Ref::borrow(object);
    }

    /// An exception that passes_through() and is set, from a question whose answer would have been another, is the
    /// error instead.
    ISTHMUS_COLD bool fail(ErrorCode code, Message text) {
        if (is_interrupted())
            return fail_with_exception(ErrorCode::producer_failed, {"asking this ", type_name(object)});
        return fail(make_error(code, options.argument, text));
    }
    ISTHMUS_COLD bool fail(Error failure) {
        outcome.error.put(std::move(failure));
        return false;
    }
    ISTHMUS_COLD bool fail_with_exception(ErrorCode code, Message what) {
        return fail(error_from_exception(code, options.argument, what));
    }
    /// The same with a remedy; an interrupt stays as it is.
    ISTHMUS_COLD bool fail_with_exception(ErrorCode code, Message what, Message remedy) {
        Error told = error_from_exception(code, options.argument, what);
        auto* cause = static_cast<PyObject*>(told.cause());
        if (cause == nullptr || passes_through(cause)) return fail(std::move(told));
        return fail(with_more(told, remedy));
    }
    ISTHMUS_COLD bool fail_unsound(const DLTensor& t, Flags flags) {
        return fail(explain_unsound(t, flags, options.argument));
    }
    /// Whether what an error refuses may be read for a copy all the same: elements that are not aligned.
    ISTHMUS_COLD bool may_copy_despite(const Error& error) const noexcept {
        return for_copy != nullptr && error.code() == ErrorCode::needs_copy;
    }
    /// Of a descriptor that is_sound() refused. Leaves the error unless it may be copied.
    ISTHMUS_COLD bool take_unsound(const DLTensor& t, Flags flags) {
        Error error = explain_unsound(t, flags, options.argument);
        return may_copy_despite(error) || fail(std::move(error));
    }
    /// Of a managed tensor that is_acceptable() refused.
    template <class Managed>
    ISTHMUS_COLD bool take_unacceptable(const Managed* managed) {
        Error error = explain_unacceptable(managed, options.argument);
        return may_copy_despite(error) || fail(std::move(error));
    }
    ISTHMUS_COLD bool fail_read_only() {
        return fail(ErrorCode::read_only,
                    {"the memory of this ", type_name(object), " is read-only; expected writable memory"});
    }
    ISTHMUS_COLD bool fail_overlap() {
        return fail(ErrorCode::bad_layout, {"expected writable memory, but the ", overlap_of(out.dl())});
    }
    ISTHMUS_COLD bool fail_copied() {
        return fail(ErrorCode::needs_copy,
                    {"the ", type_name(object), " could only be exported as a copy; expected its own memory"});
    }
    ISTHMUS_COLD bool fail_out_of_memory() { return fail(ErrorCode::out_of_memory, "no memory for a tensor handle"); }

    /// Whether memory with these flags is what the caller asked for; leaves the error if not.
    ISTHMUS_ALWAYS_INLINE bool suits(Flags flags) {
        if (ISTHMUS_UNLIKELY(options.require_writable && (flags & flag::read_only))) return fail_read_only();
        if (ISTHMUS_UNLIKELY((flags & flag::copied) && options.copy == Copy::never)) return fail_copied();
        return true;
    }
    /// Checks the descriptor, writes the strides if there are none, and checks that the memory is writable if that is
    /// required.
    bool accept(Flags flags) {
        DLTensor& t = out.dl();
        if (ISTHMUS_UNLIKELY(!is_sound(t, flags)) && !take_unsound(t, flags)) return false;
        return accept_sound(flags);
    }
    ISTHMUS_ALWAYS_INLINE bool accept_sound(Flags flags) {
        DLTensor& t = out.dl();
        if (immutable) flags |= flag::read_only;
        if (ISTHMUS_UNLIKELY(!suits(flags))) return false;
        if (ISTHMUS_UNLIKELY(t.strides == nullptr)) {
            (void)layout::row_major(t.shape, t.ndim, out.strides());
            t.strides = out.strides();
        }
        if (ISTHMUS_UNLIKELY(t.byte_offset != 0) && !Device(t.device).is_opaque()) {
            if (t.data != nullptr) t.data = static_cast<char*>(t.data) + t.byte_offset;
            t.byte_offset = 0;
        }
        if (ISTHMUS_UNLIKELY(options.require_writable) && layout::overlaps(t)) return fail_overlap();
        out.flags() = flags;
        return true;
    }
};

/// Refuses a number that names no stream of this device.
ISTHMUS_COLD inline bool accept_named_stream(ImportRequest& request, Device device) {
    const char* wanted = has_streams(device.type) ? wanted_stream(device, request.options.stream) : nullptr;
    if (wanted == nullptr) return true;
    return request.fail(ErrorCode::bad_argument, {"option 'stream': found ", request.options.stream, " for data on ",
                                                  device, "; expected ", wanted});
}
inline bool accept_stream(ImportRequest& request, Device device) {
    return ISTHMUS_LIKELY(!request.options.has_stream()) || accept_named_stream(request, device);
}

/// `producer` is the stream that the data is on; no_stream if it is unknown, which is taken for the legacy default
/// stream. `ordered`: the consumer's stream already waits for that work.
ISTHMUS_NOINLINE inline bool settle_device_stream(ImportRequest& request, std::int64_t producer, bool ordered) {
    const Device device = request.out.dl().device;
    if (producer == no_stream && PyErr_Occurred() != nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, "asking for the current stream");
    if (request.options.has_stream()) {
        if (!accept_stream(request, device)) return false;
        const std::int64_t consumer = request.options.stream;
        const std::int64_t before = producer == no_stream ? legacy_stream(device) : producer;
        if (!ordered && !order_streams(device, before, consumer))
            return request.fail(ErrorCode::producer_failed, explain_order(device, before, consumer));
        if (consumer != -1) producer = consumer;
    }
    if (producer != no_stream) request.out.set_stream(producer);
    return true;
}
inline bool settle_stream(ImportRequest& request, std::int64_t producer, bool ordered = false) {
    return ISTHMUS_LIKELY(!has_streams(request.out.dl().device.device_type)) ||
           settle_device_stream(request, producer, ordered);
}

/// The stream of the work on a tensor of a device with streams: the legacy default stream if none is known.
inline std::int64_t stream_of(const Borrowed& tensor) noexcept {
    const std::int64_t known = tensor.stream();
    return known != no_stream ? known : legacy_stream(tensor.device());
}

/// Makes a stream wait for the work on a tensor; does nothing for host memory.
ISTHMUS_NOINLINE inline Result<void> order_after(const Borrowed& tensor, std::int64_t after) {
    if (!has_streams(tensor.device().type)) return {};
    if (tensor.flags() & producer_flag) {
        if (request_order(BorrowedBuilder::producer_of(tensor), after)) return {};
        return error_from_exception(ErrorCode::producer_failed, nullptr, "__dlpack__() of the producer");
    }
    if (order_streams(tensor.device(), stream_of(tensor), after)) return {};
    return make_error(ErrorCode::producer_failed, ErrorKind::buffer,
                      explain_order(tensor.device(), stream_of(tensor), after));
}

}  // namespace detail

ISTHMUS_END
