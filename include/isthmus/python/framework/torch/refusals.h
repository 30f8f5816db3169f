// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

/// Why a torch tensor is not taken, in the same words on every way in: with libtorch, by its shims, by its Python methods.
namespace torch_words {
inline constexpr const char* conjugate =
    "the conjugate bit is set, so the bytes are not the values; call .resolve_conj() first";
inline constexpr const char* negative = "the negative bit is set, so the bytes are not the values; call .resolve_neg() first";
inline constexpr const char* nested =
    "a nested tensor has no single shape; call .unbind() or torch.nested.to_padded_tensor(x, 0) first";
inline constexpr const char* meta = "a tensor on the meta device has no memory; call .to('cpu') on a real one";
inline constexpr const char* mkldnn = "layout is torch._mkldnn, whose bytes are opaque; call .to_dense() first";
inline constexpr const char* leaf =
    "a leaf tensor that requires grad must not be written in place while grad mode is on; use torch.no_grad(), .detach(), or "
    "allow_grad";
inline constexpr const char* inference =
    "an inference tensor must not be written in place outside inference mode; call .clone() first";
}  // namespace torch_words

}  // namespace detail

ISTHMUS_END
