// Systems without memory that crosses processes by a descriptor: every call says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(__linux__) && !defined(__APPLE__)

#include <cstddef>
#include <cstdint>

#include <isthmus/core/result.h>
#include <isthmus/shared/file.h>
#include <isthmus/shared/identity.h>

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr bool supported = false;
inline constexpr bool seals_writers = false;

ISTHMUS_COLD inline Error unsupported() {
    return Error(ErrorCode::unavailable,
                 "this system has no memory that crosses processes by a descriptor; wanted Linux (memfd) or macOS (shm_open)");
}

inline std::size_t page_size() noexcept { return 4096; }
inline Result<File> create_memory(std::size_t) { return unsupported(); }
inline Result<void> seal_memory(const File&, bool) { return unsupported(); }
inline Result<void> check_memory(const File&, std::uint64_t, bool) { return unsupported(); }
inline Identity identify(const File&) noexcept { return {}; }
inline File reopen(const File&) noexcept { return {}; }
inline bool lease(const File&, std::size_t, std::size_t) noexcept { return false; }
inline void unlease(const File&, std::size_t, std::size_t) noexcept {}
inline bool leased(const File&, std::size_t, std::size_t) noexcept { return true; }

}  // namespace shared::impl

ISTHMUS_END

#endif
