"""What autograd does with an operator: the kernels at torch's Autograd and ADInplaceOrView keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ._registry import GradientPlan

if TYPE_CHECKING:
    from ._torch import Split, TorchOperator


def register_gradient(known: TorchOperator, overload: Any, split: Split) -> None:
    """A function of autograd at the dispatcher's Autograd key; torch.func's transforms refuse that of torch.library."""

    def forward(keyset: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.batch, arguments = split(inputs[1:])
        ctx.offset = len(inputs) - len(arguments)
        outs = output if isinstance(output, tuple) else (output,)
        ctx.outs = [_Facts(o) for o in outs]
        ctx.arguments = [_Facts(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        ctx.save_for_backward(*_kept(known.plan, arguments, outs))

    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (*[None] * ctx.offset, *_backward(known, ctx, gradients))

    members: dict[str, Callable[..., Any]] = {"forward": forward, "setup_context": setup, "backward": backward}

    def function_of(base: type) -> Any:
        return type(known.function, (base,), {key: staticmethod(f) for key, f in members.items()})

    function = function_of(torch.autograd.Function)
    # What torch.func's own transforms make of a function for one level of theirs.
    function_of_level = function_of(torch.autograd.function._SingleLevelFunction)

    def record(keyset: Any, *args: Any) -> Any:
        _batch, arguments = split(args)
        args = (*args[: len(args) - len(arguments)], *known.complete(arguments))
        _refuse_tangents(known, arguments)
        watched = any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)
        if not watched or not torch.is_grad_enabled():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *args)
        if not torch._C._are_functorch_transforms_active():
            return function.apply(keyset, *args)
        # The dispatcher has come to one level of the transforms, where autograd records as it does outside of them.
        with torch._functorch.autograd_function.enable_single_level_autograd_function():
            return function_of_level.apply(keyset, *args)

    known.library.impl(overload._schema.name.split("::")[1], record, "Autograd", with_keyset=True)


def register_writes(known: TorchOperator, overload: Any, split: Split) -> None:
    """An argument that is written bumps its version, and is refused if a gradient would be lost."""
    written = [i for i, row in enumerate(known.inputs) if row["kind"] == "in_out"]
    name = overload._schema.name.split("::")[1]

    def refuse(keyset: Any, *args: Any) -> Any:
        arguments = known.complete(split(args)[1])
        if torch.is_grad_enabled():
            for row, a in zip(known.inputs, arguments, strict=True):
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    raise RuntimeError(
                        f"{known.function}(): argument {row['name']!r} requires grad, and an operator that writes "
                        "in place has no gradient; call it under torch.no_grad(), or hand over x.detach()"
                    )
        return overload.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def move_version(keyset: Any, *args: Any) -> Any:
        arguments = known.complete(split(args)[1])
        for i in written:
            if arguments[i] is not None:
                torch.autograd.graph.increment_version(arguments[i])
        return overload.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args)

    known.library.impl(name, refuse, "Autograd", with_keyset=True)
    known.library.impl(name, move_version, "ADInplaceOrView", with_keyset=True)


def _refuse_tangents(known: TorchOperator, arguments: Sequence[Any]) -> None:
    """Forward mode: the result would silently have lost its tangent."""
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level < 0:
        return
    for row, a in zip(known.inputs, arguments, strict=False):
        if isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None:
            raise NotImplementedError(
                f"{known.function}(): argument {row['name']!r}: it has a tangent, and operators have no forward "
                "mode; hand over torch.autograd.forward_ad.unpack_dual(x).primal"
            )


class _Facts:
    """What is left of a tensor that is not kept."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device

    def zeros(self) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)

    def sizes(self) -> torch.Tensor:
        """An argument of the kind "sizes"."""
        return torch.empty((*self.shape, 0), dtype=self.dtype, device=self.device)


def _kept(plan: GradientPlan | None, arguments: Sequence[Any], outs: Sequence[Any]) -> list[torch.Tensor | None]:
    """By input of the gradient, the tensor that is kept for it, or None."""
    kept = []
    for kind, place in plan.sources if plan is not None else ():
        taken = arguments[place] if kind == "input" else outs[place] if kind == "result" else None
        kept.append(taken if isinstance(taken, torch.Tensor) else None)
    return kept


def _backward(known: TorchOperator, ctx: Any, gradients: Sequence[Any]) -> list[Any]:
    """By input, its gradient or None. gradients: by result, None if it was not used."""
    plan = known.plan
    if plan is None:
        raise RuntimeError(f"{known.name} has no gradient; register it in C++ with .gradient<g>()")
    needed = plan.needed(lambda i: bool(ctx.needs_input_grad[ctx.offset + i]))
    taken: list[Any] = []
    for (kind, place), tensor in zip(plan.sources, ctx.saved_tensors, strict=True):
        if kind == "grad":
            taken.append(ctx.outs[place].zeros() if gradients[place] is None else gradients[place])
        elif kind == "sizes":
            taken.append(ctx.arguments[place] and ctx.arguments[place].sizes())
        elif kind == "size":
            argument, dimension = plan.places[place]
            taken.append(ctx.arguments[argument].shape[dimension])
        elif kind == "needed":
            taken.append(needed)
        else:
            taken.append(tensor if tensor is not None else ctx.arguments[place])
    by_input: list[Any] = [None] * len(ctx.arguments)
    for bit, (place, result) in enumerate(zip(plan.of, known.gradient.run(ctx.batch, taken), strict=True)):
        argument = ctx.arguments[place]
        if isinstance(argument, _Facts) and needed >> bit & 1:
            by_input[place] = result.sum_to_size(argument.shape)
    return by_input
