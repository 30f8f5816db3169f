// Makes the consumer's stream of an export wait for the work on the memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlpack_method/import.h"  // Python.h must come before any standard header

#include <isthmus/python/runtime/raise.h>

ISTHMUS_BEGIN

namespace detail {

/// Asks a producer that alone knows its stream to order the consumer's after it, as `__dlpack__(stream=)` does. False with a
/// Python exception set.
ISTHMUS_NOINLINE inline bool ask_producer_to_order(PyObject* producer, std::int64_t after) {
    const Ref kept = Ref::borrow(producer);
    DLPackQuestion question;
    question.stream = Ref(PyLong_FromLongLong(after));
    if (!question.stream || !make_interned()) return false;
    question.version = Ref::borrow(interned().newest_version);
    Ref capsule, exception;
    Asked asked = ask_dlpack(producer, question, capsule, exception);
    if (asked == Asked::keyword_refused || asked == Asked::buffer_error) {
        question.version = Ref();
        asked = ask_dlpack(producer, question, capsule, exception);
    }
    if (asked == Asked::ok) return true;
    if (exception) restore_exception(exception.release());
    return false;
}

/// The stream of the work on a block's memory, if no producer has to be asked.
inline std::int64_t stream_of(const Block* block) noexcept {
    return (block->flags & stream_flag) ? block->stream : legacy_stream(block->dl.device);
}
ISTHMUS_COLD inline Error explain_order(const Block* block, std::int64_t after) {
    return Error(ErrorCode::producer_failed, ErrorKind::buffer, explain_order(block->dl.device, stream_of(block), after));
}

/// Makes a consumer's stream (-1: none) wait for the work on a block's memory. False with a Python exception set.
ISTHMUS_NOINLINE inline bool order_on_device(const Block* block, std::int64_t after) {
    if (after == -1) return true;
    if (block->flags & producer_flag) {
        if (ask_producer_to_order(static_cast<PyObject*>(stream_handle(block->stream)), after)) return true;
        set_python_error(error_from_exception(ErrorCode::producer_failed, nullptr, "__dlpack__() of the producer"));
        return false;
    }
    if (order_streams(block->dl.device, stream_of(block), after)) return true;
    set_python_error(explain_order(block, after));
    return false;
}
inline bool order_export(const Block* block, std::int64_t after) {
    return ISTHMUS_LIKELY(!has_streams(block->dl.device.device_type)) || order_on_device(block, after);
}
/// For a consumer that names no stream: the legacy default stream, as with `__dlpack__(stream=None)`.
inline bool order_export(const Block* block) {
    return ISTHMUS_LIKELY(!has_streams(block->dl.device.device_type)) ||
           order_on_device(block, legacy_stream(block->dl.device));
}

/// The error of a function that returns a Result, after order_export() failed.
ISTHMUS_COLD inline Error fail_to_order() {
    return error_from_exception(ErrorCode::producer_failed, nullptr, "ordering the streams");
}

}  // namespace detail

ISTHMUS_END
