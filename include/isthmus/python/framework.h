// Framework: the array libraries that a tensor can be handed to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

/// The frameworks that have a way out of their own (isthmus/python/framework/facts.h lists what is known of each). The numbers
/// are part of the shared ABI: new ones go to the end.
enum class Framework : std::uint8_t {
    none,
    tensor,   ///< isthmus.Tensor, which every framework takes
    capsule,  ///< a bare DLPack capsule, versioned
    capsule_legacy,
    numpy,
    torch,
    jax,
    cupy,
    tensorflow,
    paddle,
    mlx,
    pyarrow,
    warp,
    onnxruntime,
    tvm_ffi,
};

/// "torch"
ISTHMUS_API const char* framework_name(Framework framework) noexcept;
/// The framework called `name`; false when there is none.
ISTHMUS_API bool parse_framework(std::string_view name, Framework& out) noexcept;

ISTHMUS_END
