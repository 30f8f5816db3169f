// ImportRequest: one import in progress; every protocol gets it and leaves the tensor or the error in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/errors.h>  // Python.h must come before any standard header

#include <isthmus/core/error.h>
#include <isthmus/python/api.h>
#include "borrowed_builder.h"
#include "protocol.h"

ISTHMUS_BEGIN

namespace detail {

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

/// What an import leaves beside the tensor: an error where it failed, and a reference that lasts until the result is made.
struct ImportOutcome {
    ErrorSlot error;
    Ref alive;
};

struct ImportRequest {
    PyObject* object;
    const ImportOptions& options;
    BorrowedBuilder out;
    bool owning;  ///< the result outlives the call: hold what keeps the memory alive
    const ProducerType& producer;
    ImportOutcome& outcome;
    bool immutable = producer.immutable;  ///< the memory is read-only whatever the protocol says

    /// For protocols that run the producer's code, which may drop the only reference to the object: the caller's.
    void keep_alive() {
        if (!outcome.alive) outcome.alive = Ref::borrow(object);
    }

    ISTHMUS_COLD bool fail(ErrorCode code, Message text) { return fail(make_error(code, options.argument, text)); }
    ISTHMUS_COLD bool fail(Error failure) {
        outcome.error.put(std::move(failure));
        return false;
    }
    ISTHMUS_COLD bool fail_with_exception(ErrorCode code, Message what) {
        return fail(error_from_exception(code, options.argument, what));
    }
    ISTHMUS_COLD bool fail_unsound(const DLTensor& t, Flags flags) { return fail(explain_unsound(t, flags, options.argument)); }
    ISTHMUS_COLD bool fail_read_only() {
        return fail(ErrorCode::read_only, {"the memory of this ", type_name(object), " is read-only; wanted writable memory"});
    }
    ISTHMUS_COLD bool fail_overlap() {
        return fail(ErrorCode::bad_layout, {"wanted writable memory, but the ", overlap_text(out.dl())});
    }
    ISTHMUS_COLD bool fail_copied() {
        return fail(ErrorCode::needs_copy,
                    {"the ", type_name(object), " could only be exported as a copy; wanted its own memory"});
    }
    ISTHMUS_COLD bool fail_out_of_memory() { return fail(ErrorCode::out_of_memory, "no memory for a tensor handle"); }

    /// Whether memory with these flags is what the caller asked for; leaves the error if not.
    ISTHMUS_ALWAYS_INLINE bool suits(Flags flags) {
        if (ISTHMUS_UNLIKELY(options.require_writable && (flags & flag::read_only))) return fail_read_only();
        if (ISTHMUS_UNLIKELY((flags & flag::copied) && options.copy == Copy::never)) return fail_copied();
        return true;
    }
    /// Checks the descriptor, writes the strides if there are none, and checks that the memory is writable if that is required.
    bool accept(Flags flags) {
        DLTensor& t = out.dl();
        if (ISTHMUS_UNLIKELY(!is_sound(t, flags))) return fail_unsound(t, flags);
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

}  // namespace detail

ISTHMUS_END
