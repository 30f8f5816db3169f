// Which object of the kernel a descriptor stands for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace shared::impl {

/// The same for every descriptor of one object, in every process.
struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend auto operator<=>(const Identity&, const Identity&) = default;
};

}  // namespace shared::impl

ISTHMUS_END
