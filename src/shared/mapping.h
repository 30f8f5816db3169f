// Descriptors and mapped pages that close themselves, and the Error of a system call that failed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <utility>

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <isthmus/core/layout.h>
#include <isthmus/core/result.h>
#include <isthmus/shared/access.h>

ISTHMUS_BEGIN

namespace shared::impl {

using isthmus::detail::make_error;

/// An Error that is a ValueError in Python, whatever its code.
ISTHMUS_COLD inline Error value_error(ErrorCode code, isthmus::detail::Message text) {
    return isthmus::detail::make_error(code, ErrorKind::value, text);
}

/// The result of `f`, or the Error that it throws.
template <class F>
auto catch_error(F&& f) -> Result<decltype(f())> {
    try {
        return f();
    } catch (Error& error) {
        return std::move(error);
    }
}

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
    return make_error(code_of(number), {call, " failed: ", words});
}

ISTHMUS_COLD inline Error unsupported() {
    return make_error(ErrorCode::unavailable,
                      "this system has no memory that crosses processes by a descriptor; expected "
                      "Linux (memfd) or macOS (shm_open)");
}

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

/// Owns a range of mapped pages; empty by default.
class Mapping {
public:
    Mapping() noexcept = default;
    Mapping(char* data, std::size_t size) noexcept : data_(data), size_(size) {}
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, std::size_t{0})) {}
    Mapping& operator=(Mapping other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Mapping() {
#if !defined(_WIN32)
        if (data_ != nullptr) (void)::munmap(data_, size_);
#endif
    }
    char* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    void release() noexcept { data_ = nullptr; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

private:
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Maps `size` bytes from `offset`, a multiple of the page size.
inline Result<Mapping> map_file(const File& file, std::size_t offset, std::size_t size, Access access) {
#if defined(_WIN32)
    (void)file, (void)offset, (void)size, (void)access;
    return unsupported();
#else
    const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    int flags = access == Access::copy_on_write ? MAP_PRIVATE : MAP_SHARED;
#if defined(MAP_NORESERVE)
    if (access == Access::copy_on_write) flags |= MAP_NORESERVE;  // few of the pages will be written
#endif
    void* data = ::mmap(nullptr, size, protection, flags, file.get(), static_cast<off_t>(offset));
    if (data == MAP_FAILED) return system_error("mmap", errno);
    return Mapping(static_cast<char*>(data), size);
#endif
}

// A sealed file cannot be mapped writable again, but an existing mapping of it can be duplicated and moved (mremap(2)).

/// Maps the shared pages at `from` a second time: at `to`, in place of what is there, or anywhere. NULL if that fails.
inline char* duplicate_pages(char* from, std::size_t size, char* to = nullptr) noexcept {
#if defined(__linux__)
    void* data = to != nullptr ? ::mremap(from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to)
                               : ::mremap(from, 0, size, MREMAP_MAYMOVE);
    return data != MAP_FAILED ? static_cast<char*>(data) : nullptr;
#else
    (void)from, (void)size, (void)to;
    return nullptr;
#endif
}

/// Moves a mapping to `to`, in place of what is there.
inline bool move_pages(Mapping from, char* to) noexcept {
#if defined(__linux__)
    if (::mremap(from.data(), from.size(), from.size(), MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return false;
    from.release();
    return true;
#else
    (void)from, (void)to;
    return false;
#endif
}

}  // namespace shared::impl

ISTHMUS_END
