// Status codes and the last error of a thread.
// SPDX-License-Identifier: Apache-2.0
#include "interface.h"

#include <cstdio>
#include <cstring>

namespace {

// Plain memory without a destructor, so that a thread may fail while it ends.
struct LastError {
    isthmus_status status;
    char text[1024];
};
thread_local LastError last_error{};

// Programs in other languages have these numbers compiled in.
#define ISTHMUS_SAME_NUMBER(c, cpp) static_assert((c) == static_cast<int>(isthmus::ErrorCode::cpp))
ISTHMUS_SAME_NUMBER(ISTHMUS_NOT_A_TENSOR, not_a_tensor);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_CAPSULE, bad_capsule);
ISTHMUS_SAME_NUMBER(ISTHMUS_CONSUMED_CAPSULE, consumed_capsule);
ISTHMUS_SAME_NUMBER(ISTHMUS_UNSUPPORTED_VERSION, unsupported_version);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_DTYPE, bad_dtype);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_LAYOUT, bad_layout);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_DEVICE, bad_device);
ISTHMUS_SAME_NUMBER(ISTHMUS_READ_ONLY, read_only);
ISTHMUS_SAME_NUMBER(ISTHMUS_NULL_DATA, null_data);
ISTHMUS_SAME_NUMBER(ISTHMUS_OVERFLOW, overflow);
ISTHMUS_SAME_NUMBER(ISTHMUS_PRODUCER_FAILED, producer_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_NEEDS_COPY, needs_copy);
ISTHMUS_SAME_NUMBER(ISTHMUS_NOT_VALUES, not_values);
ISTHMUS_SAME_NUMBER(ISTHMUS_REQUIRES_GRAD, requires_grad);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_ARGUMENT, bad_argument);
ISTHMUS_SAME_NUMBER(ISTHMUS_CONSUMER_FAILED, consumer_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_UNAVAILABLE, unavailable);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_THREAD, bad_thread);
ISTHMUS_SAME_NUMBER(ISTHMUS_OUT_OF_MEMORY, out_of_memory);
ISTHMUS_SAME_NUMBER(ISTHMUS_SYSTEM_FAILED, system_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_MESSAGE, bad_message);
ISTHMUS_SAME_NUMBER(ISTHMUS_PEER_CLOSED, peer_closed);
ISTHMUS_SAME_NUMBER(ISTHMUS_TIMED_OUT, timed_out);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_FILE, bad_file);
static_assert(ISTHMUS_FLAG_READ_ONLY == isthmus::flag::read_only && ISTHMUS_FLAG_PADDED == isthmus::flag::padded);

}  // namespace

isthmus_status isthmus_c::fail(isthmus_status status, const char* text) noexcept {
    last_error.status = status;
    std::snprintf(last_error.text, sizeof last_error.text, "%s", text);
    return status;
}

const char* isthmus_status_name(isthmus_status status) noexcept {
    return status == ISTHMUS_OK ? "ok" : isthmus::error_code_name(static_cast<isthmus::ErrorCode>(status));
}
isthmus_status isthmus_last_status() noexcept { return last_error.status; }
const char* isthmus_last_error() noexcept { return last_error.text; }
void isthmus_clear_error() noexcept { (void)isthmus_c::fail(ISTHMUS_OK, ""); }

uint32_t isthmus_abi_version() noexcept { return ISTHMUS_C_ABI_VERSION; }
const char* isthmus_version() noexcept { return ISTHMUS_VERSION; }
