// The names of DLPack's capsules, before and after they are consumed (dlpack, "Python specification").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

inline constexpr const char* capsule_name = "dltensor";
inline constexpr const char* capsule_name_used = "used_dltensor";
inline constexpr const char* capsule_name_versioned = "dltensor_versioned";
inline constexpr const char* capsule_name_versioned_used = "used_dltensor_versioned";

}  // namespace detail

ISTHMUS_END
