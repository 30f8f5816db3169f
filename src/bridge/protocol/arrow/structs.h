// Arrow's C structs (arrow.apache.org: the C data interface, the C stream interface, the C device data interface).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

// Their layout is frozen. Device types have DLPack's numbers.

struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    std::int64_t flags;
    std::int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    std::int64_t length, null_count, offset, n_buffers, n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};
struct ArrowDeviceArray {
    ArrowArray array;
    std::int64_t device_id;
    std::int32_t device_type;
    void* sync_event;
    std::int64_t reserved[3];
};
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowArrayStream*, ArrowArray* out);  ///< at the end `out` is a released array
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

}  // namespace detail

ISTHMUS_END
