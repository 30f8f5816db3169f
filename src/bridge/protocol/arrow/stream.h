// Import by Arrow's PyCapsule interface of streams: the one chunk that has elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import.h"  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// The chunks of a stream. A tensor is one piece of memory, so at most one of them may have elements.
struct ArrowChunks {
    const ArrowImport& import;
    ArrowArrayStream& stream;
    ArrowOwned<ArrowArray> chunk{};      ///< the first with elements, or the first
    static constexpr int most = 10'000;  ///< a stream need not have an end
    int filled = 0;                      ///< how many have elements
    bool at_end = false;                 ///< false: there may be more

    ISTHMUS_COLD bool fail() const {
        const std::string what = concat({type_name(import.request.object), ".", import.method, "()"});
        if (PyErr_Occurred() != nullptr) return import.request.fail_with_exception(ErrorCode::producer_failed, what);
        const char* text = stream.get_last_error != nullptr ? stream.get_last_error(&stream) : nullptr;
        return import.request.fail(ErrorCode::producer_failed, {what, " gave a stream that failed",
                                                                (text != nullptr ? ": " : ""), (text != nullptr ? text : "")});
    }
    /// Reads up to the end, or up to `most` chunks.
    bool collect() {
        for (int i = 0; i < most; ++i) {
            ArrowOwned<ArrowArray> next;
            if (stream.get_next(&stream, &next.value) != 0 || PyErr_Occurred() != nullptr) return fail();
            if ((at_end = next.value.release == nullptr)) return true;
            const bool has_elements = next.value.length != 0;
            filled += has_elements;
            if (chunk.value.release == nullptr || (has_elements && filled == 1)) chunk.take(next.value);
        }
        return true;
    }
    bool is_one() const noexcept { return at_end && filled <= 1; }
    ISTHMUS_COLD bool fail_many() const {
        const char* call = import.request.producer.hint;
        return import.fail(ErrorCode::needs_copy, {"is in ", (at_end ? filled : most), (at_end ? "" : " or more"), " chunks; ",
                                                   (call != nullptr ? call : "combining them"), " gives one"});
    }
};

/// `__arrow_c_stream__`: polars, pandas, pyarrow.ChunkedArray.
ISTHMUS_NOINLINE inline bool import_arrow_stream(ImportRequest& request) {
    const ArrowImport import{request, "__arrow_c_stream__"};
    const Ref capsule = import.call(interned().arrow_stream);
    if (!capsule) return false;
    auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.get(), "arrow_array_stream"));
    PyErr_Clear();
    if (stream == nullptr || stream->release == nullptr)
        return import.fail(ErrorCode::producer_failed, "is not in a capsule of Arrow's streams, not released yet");
    request.out.dl().device = DLDevice{kDLCPU, 0};
    ArrowChunks chunks{import, *stream};
    ArrowOwned<ArrowSchema> schema;
    if (stream->get_schema(stream, &schema.value) != 0 || PyErr_Occurred() != nullptr || schema.value.release == nullptr)
        return chunks.fail();
    // A stream can be read only once: what its schema rules out is refused before anything is taken from it.
    if (!import.read(&schema.value, nullptr) || !chunks.collect()) return false;
    if (!chunks.is_one()) return chunks.fail_many();
    if (chunks.chunk.value.release == nullptr) return request.accept_sound(flag::read_only);
    return import.read(&schema.value, &chunks.chunk.value) && import.take(chunks.chunk.value);
}

}  // namespace detail

ISTHMUS_END
