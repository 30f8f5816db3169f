// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/error.h>
#include <isthmus/python/borrowed.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/options.h>

ISTHMUS_BEGIN

namespace detail {

/// One import under way: what every protocol is given, and where it leaves the tensor or the error.
struct Import {
    PyObject* object;
    const ImportOptions& options;
    detail_import out;
    bool owning;          ///< the result outlives the call: hold what keeps the memory alive
    bool may_be_written;  ///< false where the type's memory is read-only though its protocol cannot say so
    Error* error;         ///< raw storage, filled by fail()
    Ref& alive;           ///< what keep_alive() took, until the result is made

    /// For protocols that run code of the producer, which may give away the only reference to it: the caller's.
    void keep_alive() {
        if (!alive) alive = Ref::borrow(object);
    }

    ISTHMUS_COLD bool fail(ErrorCode code, const std::string& text) { return fail(make_error(code, options.argument, text)); }
    ISTHMUS_COLD bool fail(Error failure) {
        ::new (error) Error(std::move(failure));
        return false;
    }
    ISTHMUS_COLD bool fail_with_exception(ErrorCode code, const std::string& what) {
        return fail(error_from_exception(code, options.argument, what));
    }
    ISTHMUS_COLD bool fail_unsound(const DLTensor& t, Flags flags) { return fail(explain_unsound(t, flags, options.argument)); }
    ISTHMUS_COLD bool fail_read_only() {
        return fail(ErrorCode::read_only,
                    concat({"the memory of this ", type_name(object), " is read-only; wanted writable memory"}));
    }

    ISTHMUS_COLD bool fail_copied() {
        return fail(ErrorCode::needs_copy,
                    concat({"the ", type_name(object), " could only be exported as a copy; wanted its own memory"}));
    }

    /// Checks the descriptor, writes the strides where there are none, and the wish for writable memory.
    bool accept(Flags flags) {
        DLTensor& t = out.dl();
        if (ISTHMUS_UNLIKELY(!is_sound(t, flags))) return fail_unsound(t, flags);
        return accept_sound(flags);
    }
    ISTHMUS_ALWAYS_INLINE bool accept_sound(Flags flags) {
        DLTensor& t = out.dl();
        if (!may_be_written) flags |= flag::read_only;
        if (ISTHMUS_UNLIKELY(options.require_writable && (flags & flag::read_only))) return fail_read_only();
        if (ISTHMUS_UNLIKELY((flags & flag::copied) && options.copy == Copy::never)) return fail_copied();
        if (ISTHMUS_UNLIKELY(t.strides == nullptr)) {
            (void)layout::row_major(t.shape, t.ndim, out.strides());
            t.strides = out.strides();
        }
        if (ISTHMUS_UNLIKELY(t.byte_offset != 0) && !Device(t.device).is_opaque()) {
            if (t.data != nullptr) t.data = static_cast<char*>(t.data) + t.byte_offset;
            t.byte_offset = 0;
        }
        out.flags() = flags;
        return true;
    }
};

/// Hands the error of a failed import to the caller; what was held by then is given back.
template <class T>
ISTHMUS_COLD void fail_result(Result<T>& result, Error& error) {
    result.fail(std::move(error));
    error.~Error();
}

}  // namespace detail

ISTHMUS_END
