// The access of a receiver to memory that another process hands over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace shared {

/// The access that the sender allows, and that the receiver takes: each one includes those before it.
enum class Access : std::uint8_t {
    read_only,      ///< the receiver reads the sender's pages and cannot write them
    copy_on_write,  ///< the receiver may write; a page that it writes becomes its own, and nobody else sees it
    shared,         ///< both write the same pages
};

/// "read_only", "copy_on_write", "shared".
constexpr const char* access_name(Access access) noexcept {
    switch (access) {
        case Access::read_only:
            return "read_only";
        case Access::copy_on_write:
            return "copy_on_write";
        case Access::shared:
            return "shared";
    }
    return "unknown";
}

/// The access called `name`; false when there is none.
constexpr bool parse_access(std::string_view name, Access& out) noexcept {
    for (const Access access : {Access::read_only, Access::copy_on_write, Access::shared})
        if (name == access_name(access)) return out = access, true;
    return false;
}

}  // namespace shared

ISTHMUS_END
