// A descriptor that closes itself, and the Error of a system call that failed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <utility>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <isthmus/core/error.h>
#include <isthmus/core/text.h>

ISTHMUS_BEGIN

namespace shared::impl {

using isthmus::detail::concat;

/// Owns a file descriptor; -1 is none.
class File {
public:
    File() noexcept = default;
    explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
    File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    File& operator=(File other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~File() {
#if !defined(_WIN32)
        if (descriptor_ >= 0) (void)::close(descriptor_);
#endif
    }
    int get() const noexcept { return descriptor_; }
    explicit operator bool() const noexcept { return descriptor_ >= 0; }

private:
    int descriptor_ = -1;
};

// strerror_r() returns a text or a status, depending on the C library: one overload for each.
inline const char* error_words(const char* words, const char*) noexcept { return words; }
inline const char* error_words(int, const char* buffer) noexcept { return buffer; }

/// The code that fits an errno.
constexpr ErrorCode code_of(int number) noexcept {
    switch (number) {
        case ENOMEM:
        case ENOSPC:
        case EFBIG:
            return ErrorCode::out_of_memory;
        case EPIPE:
        case ECONNRESET:
            return ErrorCode::peer_closed;
        default:
            return ErrorCode::system_failed;
    }
}

/// "memfd_create failed: Too many open files": the call, and the system's text for the error.
ISTHMUS_COLD inline Error system_error(const char* call, int number) {
    char buffer[128] = "";
#if defined(_WIN32)
    (void)strerror_s(buffer, sizeof buffer, number);
    const char* words = buffer;
#else
    const char* words = error_words(strerror_r(number, buffer, sizeof buffer), buffer);
#endif
    return Error(code_of(number), concat({call, " failed: ", words}));
}

}  // namespace shared::impl

ISTHMUS_END
