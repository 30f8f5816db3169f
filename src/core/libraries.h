// The libraries that the process has loaded, and which code is at an address, as each operating system tells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <isthmus/core/config.h>

#if defined(_WIN32)
struct HINSTANCE__;
extern "C" {
__declspec(dllimport) int __stdcall GetModuleHandleExA(unsigned long, const char*, HINSTANCE__**);
__declspec(dllimport) unsigned long __stdcall GetModuleFileNameA(HINSTANCE__*, char*, unsigned long);
__declspec(dllimport) long long(__stdcall* __stdcall GetProcAddress(HINSTANCE__*, const char*))();
__declspec(dllimport) int __stdcall FreeLibrary(HINSTANCE__*);
__declspec(dllimport) unsigned short __stdcall RtlCaptureStackBackTrace(unsigned long, unsigned long, void**,
                                                                        unsigned long*);
}
#else
#include <dlfcn.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif
#endif

ISTHMUS_BEGIN

namespace detail {

/// The library at an address: the file that holds it, with and without its folder, and where the file begins in memory;
/// the function, if its name is known; and the offset in bytes from the start of the function, or else of the file.
struct CodePlace {
    std::string path, file, function;
    std::uintptr_t base = 0, offset = 0;
};

#if defined(_WIN32)

#define ISTHMUS_LIBRARY(name) name ".dll"

/// A library that the process has loaded, by its file's name, kept loaded from now on; NULL if it is not loaded. Never
/// loads one itself: if nobody has loaded the library, there is nothing of it to use.
inline void* find_library(const char* file) noexcept {
    HINSTANCE__* found = nullptr;
    return GetModuleHandleExA(0, file, &found) != 0 ? found : nullptr;
}
inline void release_library(void* library) noexcept { FreeLibrary(static_cast<HINSTANCE__*>(library)); }
/// Keeps the library at an address until the process ends.
inline void keep_library(const void* address) noexcept {
    constexpr unsigned long pinned = 1, from_address = 4;
    HINSTANCE__* found = nullptr;
    GetModuleHandleExA(pinned | from_address, static_cast<const char*>(address), &found);
}

/// Whether libraries may have been loaded since `seen` was last updated; updates it. Windows keeps no such count.
inline bool have_libraries_changed(unsigned long long&) noexcept { return true; }

template <class F>
bool find_symbol(void* library, const char* name, F& out) noexcept {
    const auto found = GetProcAddress(static_cast<HINSTANCE__*>(library), name);
    static_assert(sizeof found == sizeof out);
    std::memcpy(&out, &found, sizeof out);
    return out != nullptr;
}

/// Writes the return addresses of the calls that lead here, innermost (the caller's own) first; returns how many.
ISTHMUS_ALWAYS_INLINE int find_callers(void** frames, int most) noexcept {
    return RtlCaptureStackBackTrace(0, static_cast<unsigned long>(most), frames, nullptr);
}
/// False if nothing is known about the address.
inline bool find_code_place(const void* address, CodePlace& out) {
    constexpr unsigned long unchanged_count = 2, from_address = 4;
    HINSTANCE__* found = nullptr;
    char path[4096];
    if (GetModuleHandleExA(unchanged_count | from_address, static_cast<const char*>(address), &found) == 0)
        return false;
    const unsigned long length = GetModuleFileNameA(found, path, sizeof path);
    if (length == 0 || length >= sizeof path) return false;
    const char* slash = std::strrchr(path, '\\');
    const auto base = reinterpret_cast<std::uintptr_t>(found);
    out = {path, slash != nullptr ? slash + 1 : path, {}, base, reinterpret_cast<std::uintptr_t>(address) - base};
    return true;
}

#else

#if defined(__APPLE__)

#define ISTHMUS_LIBRARY(name) "lib" name ".dylib"

/// A library that the process has loaded, by its file's name, kept loaded from now on; NULL if it is not loaded. Never
/// loads one itself: if nobody has loaded the library, there is nothing of it to use.
inline void* find_library(const char* file) noexcept {
    // dlopen() would search the system's folders for a bare name, not the loaded libraries.
    for (std::uint32_t i = 0, count = _dyld_image_count(); i < count; ++i) {
        const char* path = _dyld_get_image_name(i);
        const char* slash = path != nullptr ? std::strrchr(path, '/') : nullptr;
        if (slash != nullptr && std::strcmp(slash + 1, file) == 0) return dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    }
    return nullptr;
}
inline unsigned long long count_libraries() noexcept { return _dyld_image_count(); }

#else

#define ISTHMUS_LIBRARY(name) "lib" name ".so"

/// Opens it by the path that the loader knows it by, which needs no memory.
inline void* find_library_by_path(const char* file) noexcept {
    struct Search {
        const char* file;
        char path[4096];  // a copy: the library may be closed meanwhile
    } search{file, {}};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
            auto& wanted = *static_cast<Search*>(out);
            const char* slash = std::strrchr(info->dlpi_name, '/');
            if (slash == nullptr || std::strcmp(slash + 1, wanted.file) != 0) return 0;
            const std::size_t length = std::strlen(info->dlpi_name);
            if (length < sizeof wanted.path) std::memcpy(wanted.path, info->dlpi_name, length + 1);
            return 1;
        },
        &search);
    return search.path[0] != 0 ? dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
}
/// A library that the process has loaded, by its file's name, kept loaded from now on; NULL if it is not loaded. Never
/// loads one itself: if nobody has loaded the library, there is nothing of it to use.
inline void* find_library(const char* file) noexcept {
    void* found = dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
    // glibc fails as well if it has no memory for the name, by which it does not know the library yet.
    return found != nullptr ? found : find_library_by_path(file);
}
inline unsigned long long count_libraries() noexcept {
    unsigned long long loads = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
            *static_cast<unsigned long long*>(out) = info->dlpi_adds;
            return 1;
        },
        &loads);
    return loads;
}

#endif

inline void release_library(void* library) noexcept { dlclose(library); }
/// Keeps the library at an address until the process ends.
inline void keep_library(const void* address) noexcept {
    Dl_info info{};
    if (dladdr(address, &info) != 0 && info.dli_fname != nullptr)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/// Whether libraries may have been loaded since `seen` was last updated; updates it.
inline bool have_libraries_changed(unsigned long long& seen) noexcept {
    const unsigned long long now = count_libraries();
    if (now == seen) return false;
    seen = now;
    return true;
}

template <class F>
bool find_symbol(void* library, const char* name, F& out) noexcept {
    out = reinterpret_cast<F>(dlsym(library, name));
    return out != nullptr;
}

/// Writes the return addresses of the calls that lead here, innermost (the caller's own) first; returns how many, 0 if
/// the C library cannot tell.
ISTHMUS_ALWAYS_INLINE int find_callers([[maybe_unused]] void** frames, [[maybe_unused]] int most) noexcept {
#if __has_include(<execinfo.h>)
    return backtrace(frames, most);
#else
    return 0;
#endif
}
/// False if nothing is known about the address.
inline bool find_code_place(const void* address, CodePlace& out) {
    Dl_info info{};
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
    const char* slash = std::strrchr(info.dli_fname, '/');
    const bool named = info.dli_sname != nullptr;
    const void* from = named ? info.dli_saddr : info.dli_fbase;
    out = {info.dli_fname, slash != nullptr ? slash + 1 : info.dli_fname, named ? info.dli_sname : "",
           reinterpret_cast<std::uintptr_t>(info.dli_fbase),
           reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(from)};
    return true;
}

#endif

}  // namespace detail

ISTHMUS_END
