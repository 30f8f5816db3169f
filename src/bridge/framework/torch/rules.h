// torch's rules on whose bytes are its values and who may write, independent of how torch is asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/block.h>
#include <isthmus/core/error.h>
#include <isthmus/core/validate.h>
#include "refusals.h"
#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// A bit because of which the bytes are not the values.
enum class LazyBit : std::uint8_t { none, conjugate, negative };

/// The result of the rules: a refusal, or a tensor that may only be read because automatic differentiation watches it.
struct TorchVerdict {
    const char* refusal = nullptr;
    ErrorCode code = ErrorCode::not_values;
    bool watched = false;
    /// As Borrowed and Block have it.
    Flags flags() const noexcept { return watched ? flag::read_only | watched_flag : 0; }
};

/// For a tensor that may be watched: reading is allowed, and the tensor is read-only then; writing follows torch's rules for an
/// in-place operation; a caller that makes a new result may refuse the tensor altogether.
template <class Ask>
ISTHMUS_NOINLINE TorchVerdict judge_watched_torch(Ask& ask, const ImportOptions& options) {
    const auto refuse = [&ask](const char* why) {
        return ask.is_transformed() ? TorchVerdict{torch_refusal::transformed} : TorchVerdict{why, ErrorCode::requires_grad};
    };
    if (ask.is_dual()) {  // with grad mode off as well, which turns off only the backward mode
        if (options.refuse_grad || options.require_writable) return refuse(torch_refusal::dual);
        return {.watched = true};
    }
    if (!ask.requires_grad() || !ask.is_recording()) return {};
    if (options.refuse_grad) return refuse(options.require_writable ? torch_refusal::grad_written : torch_refusal::grad);
    if (!options.require_writable) return {.watched = true};
    const char* why = ask.in_place_refusal();
    return why != nullptr ? refuse(why) : TorchVerdict{};
}

/// `ask` answers lazy_bit(), may_be_watched(), and only where that says yes is_dual(), requires_grad(), is_recording(),
/// in_place_refusal() and is_transformed().
template <class Ask>
ISTHMUS_ALWAYS_INLINE TorchVerdict judge_torch(Ask& ask, const ImportOptions& options) {
    const LazyBit bit = ask.lazy_bit();
    if (ISTHMUS_UNLIKELY(bit != LazyBit::none))
        return {bit == LazyBit::conjugate ? torch_refusal::conjugate : torch_refusal::negative};
    if (options.allow_grad || ISTHMUS_LIKELY(!ask.may_be_watched())) return {};
    return judge_watched_torch(ask, options);
}

}  // namespace detail

ISTHMUS_END
