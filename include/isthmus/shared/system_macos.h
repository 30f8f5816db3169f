// macOS: shm_open, unlinked at once, so that only its descriptor is left. Its size can be set only once, which is the seal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__APPLE__)

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include <isthmus/core/compiler.h>
#include <isthmus/core/result.h>
#include <isthmus/shared/file.h>
#include <isthmus/shared/identity.h>

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr bool supported = true;
inline constexpr bool seals_writers = false;

inline std::size_t page_size() noexcept { return static_cast<std::size_t>(::getpagesize()); }

inline Result<File> create_memory(std::size_t size) {
    static isthmus::detail::Atomic<std::uint32_t> next;
    for (int attempt = 0; attempt < 100; ++attempt) {
        char name[31];  // PSHMNAMLEN
        std::snprintf(name, sizeof name, "/isthmus.%d.%u", static_cast<int>(::getpid()), next.fetch_add(1));
        File file(::shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
        if (!file) {
            if (errno == EEXIST) continue;
            return system_error("shm_open", errno);
        }
        (void)::shm_unlink(name);
        (void)::fcntl(file.get(), F_SETFD, FD_CLOEXEC);
        if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) return system_error("ftruncate", errno);
        return file;
    }
    return system_error("shm_open", EEXIST);
}

inline Result<void> seal_memory(const File&, bool) { return {}; }

/// The kernel refuses a second ftruncate() of such an object, so only its size has to be checked.
inline Result<void> check_memory(const File& file, std::uint64_t size, bool) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISDIR(status.st_mode) ||
        S_ISCHR(status.st_mode))
        return Error(ErrorCode::bad_message, "the descriptor is of another kind; wanted one of shm_open");
    if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) < size)
        return Error(ErrorCode::bad_message,
                     concat({"the segment has ", static_cast<long long>(status.st_size), " bytes; wanted the ",
                             static_cast<unsigned long long>(size), " that its message says"}));
    return {};
}

// It cannot be told here whether two descriptors are of the same object, so each message is mapped separately.
inline Identity identify(const File&) noexcept {
    static isthmus::detail::Atomic<std::uint64_t> next;
    return {0, next.fetch_add(1)};
}
// No descriptor can be reopened and a range cannot be marked: memory that was sent comes back with its whole segment.
inline File reopen(const File&) noexcept { return {}; }
inline bool lease(const File&, std::size_t, std::size_t) noexcept { return false; }
inline void unlease(const File&, std::size_t, std::size_t) noexcept {}
inline bool leased(const File&, std::size_t, std::size_t) noexcept { return true; }

}  // namespace shared::impl

ISTHMUS_END

#endif
