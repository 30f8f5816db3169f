// Memory without a name that another process can map: what each operating system has of it.
// SPDX-License-Identifier: Apache-2.0
//
// Each system defines the same functions:
//   page_size(), seals_writers            who may write is decided when memory is made
//   create_memory(size)                   a new object of `size` bytes (whole pages), every page of it reserved
//   seal_memory(file, writers)            its size never changes again; without `writers` nobody maps it writable from
//                                         now on
//   allows_writers(file)                  whether it was sealed so that others may map it writable
//   check_memory(file, size, writers)     whether what another process sent is such an object, so that no access to it
//                                         can fault
//   identify(file)                        the same numbers for every descriptor of one object
//   reopen(file)                          a second open file of the same object; none if the system has no way to it
//   lease / unlease / leased              a mark on a range, which the kernel keeps as long as the open file that made
//                                         it
#pragma once

#include <cinttypes>
#include <compare>
#include <cstdio>
#include <string>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <fcntl.h>
#include <sys/stat.h>
#endif

#include "mapping.h"

// Newer than some C libraries that this is compiled with (linux/fcntl.h, linux/memfd.h, linux/magic.h).
#if defined(__linux__)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif
#endif

ISTHMUS_BEGIN

namespace shared::impl {

/// Which object of the kernel a descriptor stands for: the same for every descriptor of one object, in every process.
struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend auto operator<=>(const Identity&, const Identity&) = default;
};

/// The Error of memory or a message that is not what its sender says.
ISTHMUS_COLD inline Error bad_message(isthmus::detail::Message text) {
    return make_error(ErrorCode::bad_message, text);
}
/// Of a tensor that was described there and could not be made: memory that runs out is nobody's message.
ISTHMUS_COLD inline Error bad_tensor(std::string_view sender, Error error) {
    if (error.code() == ErrorCode::out_of_memory) return error;
    return bad_message({sender, " says a tensor that cannot be: ", error.what()});
}

#if defined(__linux__)

// A sealed memfd, and locks of its open files as leases that end with their holder.

inline constexpr bool seals_writers = true;

inline std::size_t page_size() noexcept {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

// How much memory Linux would give this process now: reserving more would not fail, but trigger the kernel's OOM
// killer.

inline constexpr std::uint64_t no_limit = UINT64_MAX;

/// Calls `use(key, value)` for each line "key value" or "key: value kB" of a file of the kernel.
template <class Use>
bool read_numbers(const char* path, Use&& use) {
    std::FILE* file = std::fopen(path, "re");
    if (file == nullptr) return false;
    char line[256], key[128];
    std::uint64_t value = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
        // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel wrote the number
        if (std::sscanf(line, "%127s %" SCNu64, key, &value) == 2) use(static_cast<const char*>(key), value);
    std::fclose(file);
    return true;
}

/// The one number in a file; no_limit for "max" and for a file that is not there.
inline std::uint64_t read_number(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return no_limit;
    std::uint64_t value = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel wrote the number
    const bool is_number = std::fscanf(file, "%" SCNu64, &value) == 1;
    std::fclose(file);
    return is_number ? value : no_limit;
}

/// The memory that the system has left: free, or held by caches that it would give up (proc(5), MemAvailable), and
/// swap. If /proc is not mounted, as in a plain chroot, only what is free (sysinfo(2)): an estimate too low gives an
/// error, one too high would end other processes.
inline std::uint64_t system_memory(const char* meminfo = "/proc/meminfo") {
    std::uint64_t kilobytes = 0;
    bool known = false;
    (void)read_numbers(meminfo, [&](const char* key, std::uint64_t value) {
        const bool available = std::strcmp(key, "MemAvailable:") == 0;
        known = known || available;
        if (available || std::strcmp(key, "SwapFree:") == 0) kilobytes += value;
    });
    if (known) return kilobytes * 1024;
    struct sysinfo now{};
    if (::sysinfo(&now) == 0) return (std::uint64_t{now.freeram} + now.bufferram + now.freeswap) * now.mem_unit;
    return no_limit;
}

/// The memory that one control group has left; file pages count as free, since the kernel drops them first.
inline std::uint64_t group_memory(const std::string& folder, const char* limit_name, const char* used_name) {
    const std::uint64_t limit = read_number(folder + limit_name);
    const std::uint64_t used = read_number(folder + used_name);
    if (limit == no_limit || used == no_limit) return no_limit;
    std::uint64_t file_pages = 0;
    (void)read_numbers((folder + "/memory.stat").c_str(), [&](const char* key, std::uint64_t value) {
        if (std::strcmp(key, "inactive_file") == 0 || std::strcmp(key, "active_file") == 0) file_pages += value;
    });
    const std::uint64_t taken = used > file_pages ? used - file_pages : 0;
    return limit > taken ? limit - taken : 0;
}

/// The minimum of what the system, this process's control group and the groups around it have left.
inline std::uint64_t available_memory() {
    std::uint64_t least = system_memory();
    std::FILE* groups = std::fopen("/proc/self/cgroup", "re");
    if (groups == nullptr) return least;
    char line[1024], controllers[256], path[768];
    while (std::fgets(line, sizeof line, groups) != nullptr) {
        // "0::/path" in version 2, "4:memory:/path" in version 1.
        const bool second = std::sscanf(line, "0::%767[^\n]", path) == 1;
        const bool first = !second && std::sscanf(line, "%*d:%255[^:]:%767[^\n]", controllers, path) == 2 &&
                           std::strcmp(controllers, "memory") == 0;
        if (!first && !second) continue;
        const std::string root = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        for (std::string group = path;; group.resize(group.rfind('/'))) {
            const std::uint64_t left =
                second ? group_memory(root + group, "/memory.max", "/memory.current")
                       : group_memory(root + group, "/memory.limit_in_bytes", "/memory.usage_in_bytes");
            if (left < least) least = left;
            if (group.rfind('/') == std::string::npos) break;
        }
    }
    std::fclose(groups);
    return least;
}

/// Refused before it is tried: the kernel would end this process, by SIGXFSZ or for lack of memory.
inline Result<void> check_room(std::size_t size) {
    struct rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur)
        return make_error(ErrorCode::out_of_memory,
                          {"no memory for a segment of ", size, " bytes: this process may make files of at most ",
                           std::uint64_t{limit.rlim_cur}, " (RLIMIT_FSIZE)"});
    constexpr std::size_t worth_asking = std::size_t{16} << 20;
    if (size < worth_asking) return {};
    const std::uint64_t available = available_memory();
    if (size <= available) return {};
    return make_error(ErrorCode::out_of_memory,
                      {"no memory for a segment of ", size, " bytes: ", available, " are available"});
}

/// Allocates every page now, so that no access can fail later for lack of memory. In steps: a signal undoes the step
/// that it interrupts, and in a program with a timer one large call would never finish.
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

inline bool allows_writers(const File& file) noexcept {
    return (::fcntl(file.get(), F_GET_SEALS) & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) == 0;
}

inline Result<void> check_memory(const File& file, std::uint64_t size, bool writers) {
    const int seals = ::fcntl(file.get(), F_GET_SEALS);
    struct statfs system{};
    // Huge pages are not reserved by their file, so touching one may fail.
    if (seals < 0 || ::fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC)
        return bad_message("the descriptor is of another kind; expected a sealed memfd of ordinary pages");
    const auto found = isthmus::detail::hex(static_cast<unsigned>(seals));
    if ((seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_GROW) == 0)
        return bad_message({"the segment's seals are ", found,
                            ", so that it may shrink or grow; expected F_SEAL_SHRINK and F_SEAL_GROW"});
    if (!writers && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) == 0)
        return bad_message(
            {"the segment's seals are ", found, ", so that its pages may be taken away; expected F_SEAL_FUTURE_WRITE"});
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    if (static_cast<std::uint64_t>(status.st_size) != size)
        return bad_message(
            {"the segment has ", status.st_size, " bytes; expected the ", size, " that its message says"});
    // Pages past the end could hide as many holes from the count below: this removes them, and does not change the
    // size.
    if (::ftruncate(file.get(), status.st_size) != 0)
        return bad_message(
            "the segment cannot be checked through this descriptor; expected one that is open for writing too");
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    const std::uint64_t reserved = static_cast<std::uint64_t>(status.st_blocks) * 512;
    if (reserved >= size) return {};
    return bad_message({"the segment has ", reserved, " of its ", size, " bytes reserved; expected all of them"});
}

inline Identity identify(const File& file) noexcept {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return {};
    return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}

/// Leases belong to an open file, and a sent descriptor shares the sender's: each message needs another one.
inline File reopen(const File& file) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file.get());
    return File(::open(path, O_RDWR | O_CLOEXEC));
}

/// Locks of open file descriptions (fcntl_locking(2)) are tracked by the kernel: they travel with the descriptor, and
/// end when the last copy of it is closed, in whichever process, however that process ended.
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

#else  // not Linux

inline constexpr bool seals_writers = false;
inline Result<void> seal_memory(const File&, bool) { return {}; }
inline bool allows_writers(const File&) noexcept { return true; }

#if defined(__APPLE__)

// shm_open, unlinked at once, so that only its descriptor is left. Its size can be set only once, which is the seal.

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

/// The kernel refuses a second ftruncate() of such an object, so only its size has to be checked.
inline Result<void> check_memory(const File& file, std::uint64_t size, bool) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return system_error("fstat", errno);
    if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISDIR(status.st_mode) ||
        S_ISCHR(status.st_mode))
        return bad_message("the descriptor is of another kind; expected one of shm_open");
    if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) < size)
        return bad_message({"the segment has ", static_cast<long long>(status.st_size), " bytes; expected the ", size,
                            " that its message says"});
    return {};
}

// Nothing says whether two descriptors are of the same object, so each message is mapped separately.
inline Identity identify(const File&) noexcept {
    static isthmus::detail::Atomic<std::uint64_t> next;
    return {0, next.fetch_add(1)};
}

#else

inline std::size_t page_size() noexcept { return 4096; }
inline Result<File> create_memory(std::size_t) { return unsupported(); }
inline Result<void> check_memory(const File&, std::uint64_t, bool) { return unsupported(); }
inline Identity identify(const File&) noexcept { return {}; }

#endif

// No descriptor can be reopened and a range cannot be marked: memory that was sent comes back with its whole segment.
inline File reopen(const File&) noexcept { return {}; }
inline bool lease(const File&, std::size_t, std::size_t) noexcept { return false; }
inline void unlease(const File&, std::size_t, std::size_t) noexcept {}
inline bool leased(const File&, std::size_t, std::size_t) noexcept { return true; }

#endif

}  // namespace shared::impl

ISTHMUS_END
