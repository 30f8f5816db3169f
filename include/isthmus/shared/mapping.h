// Pages of a segment in this process's address space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include <isthmus/core/result.h>
#include <isthmus/shared/access.h>
#include <isthmus/shared/system.h>

#if !defined(_WIN32)
#include <sys/mman.h>
#endif

ISTHMUS_BEGIN

namespace shared::impl {

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

/// Maps `size` bytes from `offset`, a multiple of the page's size.
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

/// Maps the shared pages at `from` a second time: at `to`, in place of what is there, or anywhere. NULL when that fails.
inline char* double_pages(char* from, std::size_t size, char* to = nullptr) noexcept {
#if defined(__linux__)
    void* data =
        to != nullptr ? ::mremap(from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) : ::mremap(from, 0, size, MREMAP_MAYMOVE);
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
