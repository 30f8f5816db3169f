// torch's own rules on whose bytes are its values and who may write, asked in whatever way torch can be asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/error.h>
#include <isthmus/core/validate.h>
#include <isthmus/python/framework/torch/refusals.h>
#include <isthmus/python/options.h>

ISTHMUS_BEGIN

namespace detail {

/// A bit that makes the bytes something else than the values.
enum class LazyBit : std::uint8_t { none, conjugate, negative };

/// What the rules come to: a refusal, or a tensor that may only be read.
struct TorchVerdict {
    const char* refusal = nullptr;
    ErrorCode code = ErrorCode::not_values;
    bool read_only = false;
};

/// `ask` answers lazy_bit(), and of autograd requires_grad(), is_recording() and is_leaf(): each only when it matters.
/// A tensor that requires grad may be read, and is read-only while grad mode is on; a leaf must not be written then, as torch
/// refuses an in-place operation on it.
template <class Ask>
ISTHMUS_ALWAYS_INLINE TorchVerdict judge_torch(Ask& ask, const ImportOptions& options) {
    const LazyBit bit = ask.lazy_bit();
    if (ISTHMUS_UNLIKELY(bit != LazyBit::none))
        return {bit == LazyBit::conjugate ? torch_refusal::conjugate : torch_refusal::negative};
    if (options.allow_grad || ISTHMUS_LIKELY(!ask.requires_grad()) || !ask.is_recording()) return {};
    if (!options.require_writable) return {.read_only = true};
    return ask.is_leaf() ? TorchVerdict{torch_refusal::leaf, ErrorCode::requires_grad} : TorchVerdict{};
}

}  // namespace detail

ISTHMUS_END
