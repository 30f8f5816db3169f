"""What autograd does with an operator: the kernels at torch's Autograd and ADInplaceOrView keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ._registry import LISTS, GradientPlan, argument_prefix, flat, row_of_element

if TYPE_CHECKING:
    from ._torch import Split, TorchOperator


def _any_requires_grad(*args: Any) -> bool:
    return any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat(args))


# Whether some tensor, or element of a list, requires grad: asked in C++ if this torch has that.
_is_watched: Callable[..., bool] = getattr(torch._C, "_any_requires_grad", _any_requires_grad)


def _masking(mask: Any) -> Callable[[Any], Any]:
    """The keys of a call that are in `mask`. There are few sets of keys in a process, and torch's `&` costs three times
    what this does."""
    known: dict[int, Any] = {}

    def masked(keyset: Any) -> Any:
        bits = keyset.raw_repr()
        found = known.get(bits)
        if found is None:
            found = known[bits] = keyset & mask
        return found

    return masked


_after_autograd = _masking(torch._C._after_autograd_keyset)
_after_both = _masking(torch._C._after_ADInplaceOrView_keyset)


def _redispatch_of(overload: Any) -> Callable[..., Any]:
    """overload.redispatch, or what that calls."""
    redispatch: Callable[..., Any] = getattr(
        getattr(overload, "_handle", None), "redispatch_boxed", overload.redispatch
    )
    return redispatch


_FLOATING = frozenset(("float16", "bfloat16", "float32", "float64", "complex64", "complex128"))


def register_gradient(known: TorchOperator, overload: Any, split: Split) -> None:
    """A function of autograd at the dispatcher's Autograd key; torch.func's transforms refuse that of torch.library."""

    name = overload._schema.name.split("::")[1]
    if (
        known.plan is None
        and known.jvp is None
        and not any(_FLOATING.intersection(row["dtypes"]) for row in known.outs)
    ):
        # Its results have no gradients: autograd has nothing to do, and no function in Python is called.
        known.library.impl(name, torch.library.fallthrough_kernel, "Autograd")
        return

    redispatch = _redispatch_of(overload)
    below_autograd = torch._C._AutoDispatchBelowAutograd
    is_grad_enabled = torch.is_grad_enabled
    # Of these results autograd makes no zeros if they were not used.
    without_zeros = [known.jvp is not None or not _FLOATING.intersection(row["dtypes"]) for row in known.outs]

    def forward(keyset: Any, *args: Any) -> Any:
        with below_autograd():
            return redispatch(_after_autograd(keyset), *args)

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.batch, arguments = split(inputs[1:])
        ctx.offset = len(inputs) - len(arguments)
        outs = output if isinstance(output, tuple) else (output,)
        ctx.outs = [_Facts(o) if lacks else None for o, lacks in zip(outs, without_zeros, strict=True)]
        ctx.arguments = [_Facts.of(a) for a in arguments]
        kept = _kept(known.plan, arguments, outs)
        ctx.lengths = [len(tensors) if isinstance(tensors, list) else None for tensors in kept]
        ctx.save_for_backward(*flat(kept))
        if known.jvp is not None:
            ctx.set_materialize_grads(False)  # a tangent that is not there is zero
        if known.jvp is not None and forward_ad._current_level >= 0:
            ctx.primals = [each(_primal, a) for a in arguments]

    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (*[None] * ctx.offset, *_backward(known, ctx, gradients))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        made = _product(known, ctx, tangents[ctx.offset :])
        return made if len(made) > 1 else made[0]

    members: dict[str, Callable[..., Any]] = {"forward": forward, "setup_context": setup, "backward": backward}
    if known.jvp is not None:
        members["jvp"] = jvp

    # Its apply() is that of C++ alone. torch.autograd.Function looks at the signature of forward() in each call, for
    # defaults that ours does not have: two thirds of what a recorded call costs.
    base: Any = torch.autograd.function._SingleLevelFunction
    function: Any = type(known.function, (base,), {key: staticmethod(f) for key, f in members.items()})

    def record(keyset: Any, *args: Any) -> Any:
        watched = is_grad_enabled() and _is_watched(*args)
        if not watched and forward_ad._current_level < 0:
            return redispatch(_after_autograd(keyset), *args)
        arguments = split(args)[1]
        if known.has_lists and watched:
            _refuse_lists(known, arguments)
        if known.jvp is None:
            _refuse_tangents(known, arguments)
        if not watched and not (known.jvp is not None and _has_tangent(arguments)):
            return redispatch(_after_autograd(keyset), *args)
        args = (*args[: len(args) - len(arguments)], *known.complete(arguments))
        if not torch._C._are_functorch_transforms_active():
            return function.apply(keyset, *args)
        # The dispatcher has come to one level of the transforms, where autograd records as it does outside of them.
        with torch._functorch.autograd_function.enable_single_level_autograd_function():
            return function.apply(keyset, *args)

    known.library.impl(name, record, "Autograd", with_keyset=True)


def register_writes(known: TorchOperator, overload: Any, split: Split) -> None:
    """An argument that is written bumps its version, and is refused if a gradient would be lost."""
    offset = 0 if overload is known.overload else 1
    written = [i + offset for i, row in enumerate(known.inputs) if row["kind"] in ("in_out", "in_outs")]
    is_simple = all(row["kind"] != "in_outs" and not row["optional"] for row in known.inputs)
    name = overload._schema.name.split("::")[1]
    redispatch = _redispatch_of(overload)
    in_place = torch._C.DispatchKey.ADInplaceOrView
    is_grad_enabled, increment_version = torch.is_grad_enabled, torch.autograd.graph.increment_version

    def refuse(keyset: Any, *args: Any) -> Any:
        if is_grad_enabled() and _is_watched(*args):
            arguments = known.complete(split(args)[1])
            for name, a in _tensors(known, arguments):
                if a.requires_grad:
                    argument = argument_prefix(known.function, name).removesuffix(": ")
                    raise RuntimeError(
                        f"{argument} requires grad, and an operator that writes "
                        "in place has no gradient; call it under torch.no_grad(), or hand over x.detach()"
                    )
        if keyset.has(in_place):  # its kernel would be the next one: another call of Python
            return move_version(keyset, *args)
        return redispatch(_after_autograd(keyset), *args)

    def move_version(keyset: Any, *args: Any) -> Any:
        given = [args[i] for i in written if i < len(args)]
        increment_version(given if is_simple else [tensor for tensor in flat(given) if tensor is not None])
        return redispatch(_after_both(keyset), *args)

    known.library.impl(name, refuse, "Autograd", with_keyset=True)
    known.library.impl(name, move_version, "ADInplaceOrView", with_keyset=True)


def each(change: Callable[[torch.Tensor], Any], argument: Any, otherwise: Callable[[Any], Any] = lambda a: a) -> Any:
    """A tensor changed, or each of a list; `otherwise` for everything else."""
    if isinstance(argument, torch.Tensor):
        return change(argument)
    if isinstance(argument, (list, tuple)) and all(isinstance(a, torch.Tensor) for a in argument):
        return [change(a) for a in argument]
    return otherwise(argument)


def _primal(tensor: torch.Tensor) -> torch.Tensor:
    primal: torch.Tensor = forward_ad.unpack_dual(tensor).primal
    return primal


def _has_tangent(arguments: Sequence[Any]) -> bool:
    return forward_ad._current_level >= 0 and any(
        isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None for a in arguments
    )


def _product(known: TorchOperator, ctx: Any, tangents: Sequence[Any]) -> tuple[Any, ...]:
    """By result, its tangent or None. tangents: by input, None if it has none."""
    assert known.jvp is not None
    of, gives = known.tangents
    taken: list[Any] = []
    for row, place in zip(known.jvp.inputs, of, strict=False):
        primal, tangent = ctx.primals[place], tangents[place]
        is_zero = tangent is None and primal is not None and not row["optional"]
        taken.append(torch.zeros_like(primal) if is_zero else tangent)
    made = iter(known.jvp.run(ctx.batch, [*taken, *ctx.primals]))
    return tuple(next(made) if i in gives else None for i in range(len(ctx.outs)))


def _refuse_tangents(known: TorchOperator, arguments: Sequence[Any]) -> None:
    """Forward mode: the result would silently have lost its tangent."""
    if forward_ad._current_level < 0:
        return
    for name, a in _tensors(known, arguments):
        if forward_ad.unpack_dual(a).tangent is not None:
            raise NotImplementedError(
                f"{argument_prefix(known.function, name)}it has a tangent, and this operator has no "
                "forward mode (.jvp<t>()); hand over torch.autograd.forward_ad.unpack_dual(x).primal"
            )


def _refuse_lists(known: TorchOperator, arguments: Sequence[Any]) -> None:
    """The gradient of an element would silently have been lost."""
    for name, a in _tensors(known, arguments):
        if "', element " in name and a.requires_grad:
            raise RuntimeError(
                f"{argument_prefix(known.function, name)}it requires grad, and operators have no gradients of lists; "
                "call it under torch.no_grad(), or hand over x.detach()"
            )


def _tensors(known: TorchOperator, arguments: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor, with its name; of a list its elements."""
    for row, argument in zip(known.inputs, arguments, strict=False):
        if isinstance(argument, torch.Tensor):
            yield row["name"], argument
        elif row["kind"] in LISTS:
            for k, element in enumerate(argument):
                yield row_of_element(row, k)["name"], element


class _Facts:
    """What is left of a tensor that is not kept."""

    @classmethod
    def of(cls, argument: Any) -> Any:
        """The facts of a tensor, nothing of a list of them, and any other argument as it is."""
        if isinstance(argument, torch.Tensor):
            return cls(argument)
        is_list = isinstance(argument, (list, tuple)) and any(isinstance(a, torch.Tensor) for a in argument)
        return None if is_list else argument

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device

    def zeros(self) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)

    def sizes(self) -> torch.Tensor:
        """An argument of the kind "sizes"."""
        return torch.empty((*self.shape, 0), dtype=self.dtype, device=self.device)


def _kept(plan: GradientPlan | None, arguments: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """By input of the gradient, the tensor or the list of tensors that is kept for it, or None."""
    kept: list[Any] = []
    for kind, place in plan.sources if plan is not None else ():
        taken: Any = arguments[place] if kind == "input" else outs[place] if kind == "result" else None
        is_list = isinstance(taken, (list, tuple)) and any(isinstance(a, torch.Tensor) for a in taken)
        kept.append(list(taken) if is_list else taken if isinstance(taken, torch.Tensor) else None)
    return kept


def _backward(known: TorchOperator, ctx: Any, gradients: Sequence[Any]) -> list[Any]:
    """By input, its gradient or None. gradients: by result, None if it was not used."""
    plan = known.plan
    if plan is None:
        raise RuntimeError(f"{known.name} {known.why_no_gradient()}")
    needed = plan.needed(lambda i: bool(ctx.needs_input_grad[ctx.offset + i]))
    spreads = ctx.batch > 0 or known.table["batch"]  # arguments may have been broadcast
    taken: list[Any] = []
    saved = iter(ctx.saved_tensors)
    kept = [next(saved) if n is None else [next(saved) for _ in range(n)] for n in ctx.lengths]
    for (kind, place), tensor in zip(plan.sources, kept, strict=True):
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
            by_input[place] = result.sum_to_size(argument.shape) if spreads else result
    return by_input
