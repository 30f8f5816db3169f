// The refusals of torch, in its words, and the rules of autograd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>

#include <string>
#include <string_view>

#include <isthmus/core/block.h>
#include <isthmus/core/error.h>
#include <isthmus/core/layout.h>

ISTHMUS_BEGIN

namespace detail {

/// The code of a failure that libtorch explains: its C functions keep the text of an exception, not its type.
ISTHMUS_COLD inline ErrorCode torch_failure(ErrorCode otherwise, std::string_view said) noexcept {
    for (const std::string_view no_memory : {"bad_alloc", "allocate memory", "not enough memory"})
        if (said.find(no_memory) != std::string_view::npos) return ErrorCode::out_of_memory;
    return otherwise;
}

namespace torch_refusal {
inline constexpr const char* conjugate =
    "the conjugate bit is set, so the bytes are not the values; call .resolve_conj() first";
inline constexpr const char* negative =
    "the negative bit is set, so the bytes are not the values; call .resolve_neg() first";
inline constexpr const char* nested =
    "a nested tensor has no single shape; call .unbind() or torch.nested.to_padded_tensor(x, 0) first";
inline constexpr const char* meta = "a tensor on the meta device has no memory; call .to('cpu') on a real one";
inline constexpr const char* mkldnn = "layout is torch._mkldnn, whose bytes are opaque; call .to_dense() first";
inline constexpr const char* leaf =
    "a leaf tensor that requires grad must not be written in place while grad mode is on; use torch.no_grad(), "
    ".detach(), or "
    "allow_grad";
inline constexpr const char* view_of_leaf =
    "a view of a leaf tensor that requires grad must not be written in place while grad mode is on; use "
    "torch.no_grad(), "
    ".detach(), or allow_grad";
inline constexpr const char* fixed_view =
    "a tensor that requires grad must not be written in place through a view that autograd cannot follow (one of "
    "several that "
    "unbind(), chunk() or split() made, one made under torch.no_grad() or by a custom function); use .clone(), or "
    ".detach()";
inline constexpr const char* grad =
    "the tensor requires grad, and the result would have no gradient; call .detach() first, or use torch.no_grad(), or "
    "write a "
    "torch.autograd.Function around the call";
inline constexpr const char* grad_written =
    "the tensor requires grad, and autograd would not see what is written to it; call .detach() first, or use "
    "torch.no_grad()";
inline constexpr const char* dual =
    "the tensor requires forward gradients (it has a tangent), which would be lost; call "
    "torch.autograd.forward_ad.unpack_dual(x).primal first";
inline constexpr const char* transformed =
    "a tensor inside a transform of torch.func or torch.vmap has no memory of its own; call this outside of the "
    "transform, or "
    "write a torch.autograd.Function with setup_context around the call";
inline constexpr const char* inference =
    "an inference tensor must not be written in place outside inference mode; call .clone() first";

/// `layout`: as torch writes it, "torch.sparse_coo".
ISTHMUS_COLD inline TextBuffer sparse(std::string_view layout) noexcept {
    return compose({"layout is ", layout, "; expected a dense tensor: call .to_dense() first"});
}
/// `dtype`: as torch writes it, "torch.quint8".
ISTHMUS_COLD inline TextBuffer quantised(std::string_view dtype) noexcept {
    return compose({"dtype is ", dtype,
                    ": the bytes of a quantised tensor are not its values; call .dequantize() or .int_repr() first"});
}
ISTHMUS_COLD inline TextBuffer unknown_dtype(std::string_view dtype) noexcept {
    return compose({"dtype ", dtype, " has no counterpart in DLPack; call .view(torch.uint8) for the bytes"});
}
}  // namespace torch_refusal

/// Why torch does not take a tensor; `why` is torch's own text, for when the descriptor gives no reason.
ISTHMUS_COLD inline Error explain_torch_export(const DLTensor& t, bool dtype_is_known, const char* why) {
    const DType dtype = t.dtype;
    if (layout::has_negative_stride(t))
        return make_error(ErrorCode::bad_layout,
                          {"strides ", sizes_text(t.strides, t.ndim),
                           " are negative, which torch does not support; copy it first, or say allow_copy"});
    if (!dtype_is_known) {
        const TextBuffer nearest = dtype == float4_e2m1fn ? compose({"float4_e2m1fn_x2, two packed elements a byte, "
                                                                     "which takes an even last dimension of stride 1"})
                                                          : compose({"uint", 8 * dtype.itemsize()});
        return make_error(ErrorCode::bad_dtype,
                          {"dtype ", dtype, " has no counterpart in torch; nearest is ", nearest});
    }
    return make_error(torch_failure(ErrorCode::consumer_failed, why), {"torch did not take the tensor: ", why});
}

/// A bit because of which the bytes are not the values.
enum class LazyBit : std::uint8_t { none, conjugate, negative };

/// The result of the rules: a refusal, or a tensor that may only be read because automatic differentiation watches it.
struct TorchVerdict {
    const char* refusal = nullptr;
    ErrorCode code = ErrorCode::not_values;
    bool watched = false;
    /// As Borrowed and Block have it.
    Flags flags() const noexcept { return watched ? flag::read_only | tracked_flag : 0; }
};

/// For a tensor that autograd may track: reading is allowed, and the tensor is read-only then; writing follows torch's
/// rules for an in-place operation; a caller that makes a new result may refuse the tensor altogether.
template <class Ask>
ISTHMUS_NOINLINE TorchVerdict judge_watched_torch(Ask& ask, const ImportOptions& options) {
    const auto refuse = [&ask](const char* why) {
        return ask.is_transformed() ? TorchVerdict{torch_refusal::transformed}
                                    : TorchVerdict{why, ErrorCode::requires_grad};
    };
    if (ask.is_dual()) {  // with grad mode off as well, which turns off only the backward mode
        if (options.refuse_grad || options.require_writable) return refuse(torch_refusal::dual);
        return {.watched = true};
    }
    if (!ask.requires_grad() || !ask.is_recording()) return {};
    if (options.refuse_grad)
        return refuse(options.require_writable ? torch_refusal::grad_written : torch_refusal::grad);
    if (!options.require_writable) return {.watched = true};
    const char* why = ask.in_place_refusal();
    return why != nullptr ? refuse(why) : TorchVerdict{};
}

/// `ask` answers lazy_bit(), may_be_watched(), and only if that is true is_dual(), requires_grad(), is_recording(),
/// in_place_refusal() and is_transformed().
template <class Ask>
ISTHMUS_ALWAYS_INLINE TorchVerdict check_torch_rules(Ask& ask, const ImportOptions& options) {
    const LazyBit bit = ask.lazy_bit();
    if (ISTHMUS_UNLIKELY(bit != LazyBit::none))
        return {bit == LazyBit::conjugate ? torch_refusal::conjugate : torch_refusal::negative};
    if (options.allow_grad || ISTHMUS_LIKELY(!ask.may_be_watched())) return {};
    return judge_watched_torch(ask, options);
}

}  // namespace detail

ISTHMUS_END
