// Linux: a sealed memfd, and locks of its open files as leases that end with their holder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__linux__)

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>

#include <isthmus/core/result.h>
#include <isthmus/shared/file.h>
#include <isthmus/shared/identity.h>
#include <isthmus/shared/memory_limit.h>

// Newer than some C libraries that this is compiled with (linux/fcntl.h, linux/memfd.h, linux/magic.h).
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr bool supported = true;
inline constexpr bool seals_writers = true;

inline std::size_t page_size() noexcept {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

/// Refused before it is tried: the kernel would end this process, by SIGXFSZ or for lack of memory.
inline Result<void> check_room(std::size_t size) {
    struct rlimit most{};
    if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && size > most.rlim_cur)
        return Error(ErrorCode::out_of_memory,
                     concat({"no memory for a segment of ", size, " bytes: this process may make files of at most ",
                             static_cast<unsigned long long>(most.rlim_cur), " (RLIMIT_FSIZE)"}));
    constexpr std::size_t worth_asking = std::size_t{16} << 20;
    if (size < worth_asking) return {};
    const std::uint64_t available = available_memory();
    if (size > available)
        return Error(ErrorCode::out_of_memory, concat({"no memory for a segment of ", size, " bytes: ",
                                                       static_cast<unsigned long long>(available), " are available"}));
    return {};
}

/// Allocates every page now, so that no access can fail later for lack of memory. In steps: a signal undoes the step that it
/// interrupts, and in a program with a timer one large call would never finish.
inline Result<void> reserve_memory(const File& file, std::size_t size) {
    constexpr std::size_t step = std::size_t{4} << 20;
    for (std::size_t at = 0; at < size;) {
        const std::size_t count = size - at < step ? size - at : step;
        if (::fallocate(file.get(), 0, static_cast<off_t>(at), static_cast<off_t>(count)) == 0)
            at += count;
        else if (errno != EINTR)
            return system_error("fallocate", errno);
    }
    return {};
}

inline Result<File> create_memory(std::size_t size) {
    if (auto room = check_room(size); !room) return std::move(room).error();
    int descriptor = ::memfd_create("isthmus", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (descriptor < 0 && errno == EINVAL)  // before Linux 6.3
        descriptor = ::memfd_create("isthmus", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    File file(descriptor);
    if (!file) return system_error("memfd_create", errno);
    if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) return system_error("ftruncate", errno);
    if (auto reserved = reserve_memory(file, size); !reserved) return std::move(reserved).error();
    return file;
}

/// Existing mappings stay writable under F_SEAL_FUTURE_WRITE (memfd_create(2)): the creator maps first.
inline Result<void> seal_memory(const File& file, bool writers) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (writers ? 0 : F_SEAL_FUTURE_WRITE);
    if (::fcntl(file.get(), F_ADD_SEALS, seals) != 0) return system_error("fcntl(F_ADD_SEALS)", errno);
    return {};
}

ISTHMUS_COLD inline Error bad_segment(std::string text) { return Error(ErrorCode::bad_message, std::move(text)); }

inline Result<void> check_memory(const File& file, std::uint64_t size, bool writers) {
    const int seals = ::fcntl(file.get(), F_GET_SEALS);
    struct statfs system{};
    // Huge pages are not reserved by their file, so touching one may fail.
    if (seals < 0 || ::fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC)
        return bad_segment("the descriptor is of another kind; wanted a sealed memfd of ordinary pages");
    if ((seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_GROW) == 0)
        return bad_segment(concat({"the segment's seals are ", isthmus::detail::hex(static_cast<unsigned>(seals)),
                                   ", so that it may shrink or grow; wanted F_SEAL_SHRINK and F_SEAL_GROW"}));
    if (!writers && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) == 0)
        return bad_segment(concat({"the segment's seals are ", isthmus::detail::hex(static_cast<unsigned>(seals)),
                                   ", so that its pages may be taken away; wanted F_SEAL_FUTURE_WRITE"}));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    if (static_cast<std::uint64_t>(status.st_size) != size)
        return bad_segment(concat({"the segment has ", static_cast<long long>(status.st_size), " bytes; wanted the ",
                                   static_cast<unsigned long long>(size), " that its message says"}));
    // Pages past the end could hide as many holes from the count below: this removes them, and does not change the size.
    if (::ftruncate(file.get(), status.st_size) != 0)
        return bad_segment("the segment cannot be checked through this descriptor; wanted one that is open for writing too");
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    const std::uint64_t reserved = static_cast<std::uint64_t>(status.st_blocks) * 512;
    if (reserved < size)
        return bad_segment(concat({"the segment has ", static_cast<unsigned long long>(reserved), " of its ",
                                   static_cast<unsigned long long>(size), " bytes reserved; wanted all of them"}));
    return {};
}

inline Identity identify(const File& file) noexcept {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return {};
    return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}

/// Leases belong to an open file, and a sent descriptor shares the sender's open file: each message needs one of its own.
inline File reopen(const File& file) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file.get());
    return File(::open(path, O_RDWR | O_CLOEXEC));
}

/// Locks of open file descriptions (fcntl_locking(2)) are tracked by the kernel: they travel with the descriptor, and end when
/// the last copy of it is closed, in whichever process, however that process ended.
inline int lock_range(const File& file, int command, short type, std::size_t offset, std::size_t size,
                      struct flock& lock) noexcept {
    lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(offset);
    lock.l_len = static_cast<off_t>(size);
    return ::fcntl(file.get(), command, &lock);
}
inline bool lease(const File& file, std::size_t offset, std::size_t size) noexcept {
    struct flock lock{};
    return lock_range(file, F_OFD_SETLK, F_RDLCK, offset, size, lock) == 0;
}
inline void unlease(const File& file, std::size_t offset, std::size_t size) noexcept {
    struct flock lock{};
    (void)lock_range(file, F_OFD_SETLK, F_UNLCK, offset, size, lock);
}
/// Whether any other open file holds a lease on a part of the range.
inline bool leased(const File& file, std::size_t offset, std::size_t size) noexcept {
    struct flock lock{};
    return lock_range(file, F_OFD_GETLK, F_WRLCK, offset, size, lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace shared::impl

ISTHMUS_END

#endif
