// Framework: the array libraries that a tensor can be handed to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

/// The frameworks that have a way out of their own (isthmus/python/framework/facts.h lists what is known of each). The numbers
/// are part of the shared ABI: new ones go to the end.
enum class Framework : std::uint8_t {
    none,            ///< no framework
    tensor,          ///< isthmus.Tensor, which every framework takes
    capsule,         ///< a bare DLPack capsule, versioned
    capsule_legacy,  ///< the same in the layout before DLPack 1.0
    numpy,           ///< numpy.ndarray
    torch,           ///< torch.Tensor
    jax,             ///< jax.Array
    cupy,            ///< cupy.ndarray
    tensorflow,      ///< tensorflow.Tensor
    paddle,          ///< paddle.Tensor
    mlx,             ///< mlx.core.array: always a copy, which must be allowed
    pyarrow,         ///< pyarrow.Tensor
    warp,            ///< warp.array
    onnxruntime,     ///< onnxruntime.OrtValue
    tvm_ffi,         ///< tvm_ffi.Tensor
};

namespace detail {

/// Whether the number has a name in its enum, so that a table can tell that its last row is missing: the compilers write
/// "(Framework)99" for one that has none.
template <auto value>
constexpr bool is_enumerator() {
    constexpr std::string_view said = __PRETTY_FUNCTION__, mark = "value = ";
    static_assert(said.find(mark) != std::string_view::npos);
    return said[said.find(mark) + mark.size()] != '(';
}
static_assert(is_enumerator<Framework::torch>() && !is_enumerator<static_cast<Framework>(255)>());

}  // namespace detail

/// "torch"
const char* framework_name(Framework framework) noexcept;
/// The framework called `name`; false when there is none.
bool parse_framework(std::string_view name, Framework& out) noexcept;

ISTHMUS_END
