// How much memory Linux would give this process now: reserving more would not fail, but trigger the kernel's OOM killer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#if defined(__linux__)
#include <sys/sysinfo.h>
#endif

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr std::uint64_t no_limit = UINT64_MAX;

/// Calls `use(key, value)` for each line "key value" or "key: value kB" of a file of the kernel's.
template <class Use>
bool read_numbers(const char* path, Use&& use) {
    std::FILE* file = std::fopen(path, "re");
    if (file == nullptr) return false;
    char line[256], key[128];
    std::uint64_t value = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
        // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): a number of the kernel's own
        if (std::sscanf(line, "%127s %" SCNu64, key, &value) == 2) use(static_cast<const char*>(key), value);
    std::fclose(file);
    return true;
}

/// The one number in a file; no_limit for "max" and for a file that is not there.
inline std::uint64_t read_number(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return no_limit;
    std::uint64_t value = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): a number of the kernel's own
    const bool is_number = std::fscanf(file, "%" SCNu64, &value) == 1;
    std::fclose(file);
    return is_number ? value : no_limit;
}

/// What the system has left: free, or held by caches that it would give up (proc(5), MemAvailable), and swap. If /proc is not
/// mounted, as in a plain chroot, only what is free (sysinfo(2)): an estimate too low gives an error, one too high would end
/// other processes.
inline std::uint64_t system_memory(const char* meminfo = "/proc/meminfo") {
    std::uint64_t kilobytes = 0;
    bool told = false;
    (void)read_numbers(meminfo, [&](const char* key, std::uint64_t value) {
        const bool available = std::strcmp(key, "MemAvailable:") == 0;
        told = told || available;
        if (available || std::strcmp(key, "SwapFree:") == 0) kilobytes += value;
    });
    if (told) return kilobytes * 1024;
#if defined(__linux__)
    struct sysinfo now{};
    if (::sysinfo(&now) == 0) return (std::uint64_t{now.freeram} + now.bufferram + now.freeswap) * now.mem_unit;
#endif
    return no_limit;
}

/// What one control group has left; file pages count as free, since the kernel drops them first.
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

/// The least of what the system, this process's control group and the groups around it have left.
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
            const std::uint64_t left = second ? group_memory(root + group, "/memory.max", "/memory.current")
                                              : group_memory(root + group, "/memory.limit_in_bytes", "/memory.usage_in_bytes");
            if (left < least) least = left;
            if (group.rfind('/') == std::string::npos) break;
        }
    }
    std::fclose(groups);
    return least;
}

}  // namespace shared::impl

ISTHMUS_END
