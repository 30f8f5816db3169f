// Why an eager call of an operator is refused that its framework should have made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "definition.h"  // Python.h must come before any standard header

#include "../runtime/errors.h"
#include "../runtime/lookups.h"

ISTHMUS_BEGIN

namespace detail {

/// A call that is to be recorded; `name` is the argument that autograd tracks.
inline ISTHMUS_COLD Error explain_tracked(const OperatorDefinition& op, const char* name) {
    const char* otherwise = "; call it under torch.no_grad(), or hand over x.detach()";
    const char* why = "it requires grad, and recording that needs the package isthmus, which is not installed";
    if (op.plan.of.empty()) {
        why = "it requires grad, and this operator has no gradient; register it with .gradient<g>()";
        otherwise = ", call it under torch.no_grad(), or hand over x.detach()";
    } else if (loaded_module("isthmus.operators")) {
        why = "it has a tangent, and this operator has no forward mode (.jvp<t>()); hand over ";
        otherwise = "torch.autograd.forward_ad.unpack_dual(x).primal";
    }
    return make_error(ErrorCode::requires_grad, {call_prefix(op.function.c_str(), name), why, otherwise});
}
inline ISTHMUS_COLD Error explain_seen(const OperatorDefinition& op) {
    return make_error(ErrorCode::bad_argument,
                      {op.function,
                       "(): torch has to see this call (a mode, a tracer, autocast or a subclass of "
                       "torch.Tensor), and that needs the package isthmus, which is not installed"});
}
/// A call that has no framework, since its lists of tensors are empty.
inline ISTHMUS_COLD Error explain_no_tensor(const OperatorDefinition& op) {
    return make_error(ErrorCode::bad_argument, ErrorKind::value,
                      {op.function,
                       "(): found no tensor in its arguments; expected at least one, since a call belongs "
                       "to its framework"});
}
/// Only JAX makes arrays on its devices: the call is made through XLA.
inline ISTHMUS_COLD Error explain_jax(const OperatorDefinition& op, Device device) {
    return make_error(ErrorCode::bad_device, {op.function, "(): a call with arrays of JAX on ", device,
                                              " needs the package isthmus, which is not installed"});
}

}  // namespace detail

ISTHMUS_END
