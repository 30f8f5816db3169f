"""Plain calls of operators that torch has to see: made by its dispatcher, whatever is at work there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ._registry import LISTS, flat, handed_over, row_of_element
from ._torch import TorchOperator, register
from ._torch_autograd import _has_tangent, _is_watched

# What stands for a value while torch traces.
_SYMBOLS = (torch.fx.Proxy, torch.SymInt, torch.SymFloat, torch.SymBool)


def must_see(op: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether a call with these arguments is one for torch itself: a gradient is recorded, or a graph; or torch's
    dispatcher does something to an argument before a kernel has it."""
    if torch.is_grad_enabled() and _is_watched(*arguments.values()):
        return True
    if any(isinstance(value, _SYMBOLS) for value in flat(arguments.values())):
        return True
    tensors = [value for value in flat(arguments.values()) if isinstance(value, torch.Tensor)]
    if not tensors:
        return False
    if torch._C._len_torch_dispatch_stack() > 0 or any(_acts(op, tensor) for tensor in tensors):
        return True
    elsewhere = [tensor for tensor in tensors if tensor.device.type != "cpu" and not tensor.is_contiguous()]
    packed = [arguments.get(row["name"]) for row in register(op).inputs if row.get("packed")] if elsewhere else []
    return any(value is tensor for value in flat(packed) for tensor in elsewhere)


def _acts(op: Any, tensor: torch.Tensor) -> bool:
    """Whether the dispatcher has more to do with a tensor than to find the kernel of its device."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return True
    if register(op).jvp is not None and _has_tangent([tensor]):
        return True
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or (tensor.requires_grad and torch.is_grad_enabled()):
        return True
    if tensor.is_nested or tensor.is_quantized or tensor.layout != torch.strided:
        # It has a key of its own, for which somebody may have registered a kernel.
        keys = torch._C._dispatch_keys(tensor) & torch._C._after_ADInplaceOrView_keyset
        key = keys.highestPriorityTypeId().name
        return key.isidentifier() and bool(torch._C._dispatch_has_kernel_for_dispatch_key(register(op).name, key))
    return bool(
        tensor.is_meta
        or tensor.is_neg()
        or tensor.is_conj()
        or torch._is_functional_tensor(tensor)
        or tensor._is_zerotensor()
    )


def call(op: Any, arguments: dict[str, Any], out: Any = None) -> Any:
    """The call by torch's dispatcher; NotImplemented if it would lose a gradient. `out`: None, or where the results
    go."""
    known = register(op)
    for row in known.inputs:
        value = arguments.get(row["name"])
        if isinstance(value, torch.Tensor):
            continue
        if row["kind"] in LISTS and isinstance(value, (list, tuple)):
            arguments[row["name"]] = [
                element
                if isinstance(element, (torch.Tensor, torch.fx.Proxy))
                else handed_over(known, row_of_element(row, k), element, "torch")
                for k, element in enumerate(value)
            ]
            continue
        if value is None or isinstance(value, torch.fx.Proxy) or row["kind"] == "random":
            continue
        if row["kind"] in ("tensor", "in_out"):
            arguments[row["name"]] = handed_over(known, row, value, "torch")
        elif row["kind"] == "dtype":
            arguments[row["name"]] = known.torch_dtype(row, value)
    if known.plan is None and not known.table["writes"] and _loses_gradient(arguments.values()):
        return NotImplemented
    arguments = known.filled((), arguments)
    if out is None:  # by position, which costs torch less
        return known.overload(*(arguments[row["name"]] for row in known.inputs))
    return call_into(known, (), arguments, out)


def _loses_gradient(values: Iterable[Any]) -> bool:
    """Whether autograd would record this call of an operator without a gradient, and nothing else sees it."""
    if not torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack() > 0:
        return False
    with torch._C.DisableTorchFunction():  # a subclass or a mode is to see the call, and not these questions
        tensors = [value for value in flat(values) if isinstance(value, torch.Tensor)]
        return any(t.requires_grad for t in tensors) and all(type(t) is torch.Tensor for t in tensors)


def call_into(known: TorchOperator, args: tuple[Any, ...], arguments: dict[str, Any], out: Any) -> Any:
    """The call with out=, which is returned: torch copies the results there, so that it sees them."""
    result = known.call(*args, **arguments)
    several = len(known.outs) > 1
    if several and not (isinstance(out, tuple) and len(out) == len(known.outs)):
        raise TypeError(
            f"{known.function}(): argument 'out': expected a tuple of {len(known.outs)} tensors, got "
            f"{type(out).__name__}"
        )
    made = result if several else (result,)
    places = out if several else (out,)
    for i in range(len(known.outs)):
        _write(known, known.outs[i]["name"], places[i], made[i])
    return out


def _write(known: TorchOperator, name: str, place: Any, made: Any) -> None:
    argument = f"{known.function}(): argument {name!r}: "
    if not isinstance(place, (torch.Tensor, torch.fx.Proxy)):
        place = handed_over(known, {"name": name, "kind": "in_out"}, place, "torch")
    if isinstance(made, torch.Tensor) and isinstance(place, torch.Tensor):
        if made.requires_grad or (place.requires_grad and torch.is_grad_enabled()):
            raise ValueError(f"{argument}torch records this call (a gradient), and expected no out=")
        if place.dtype != made.dtype or place.shape != made.shape:
            found = f"{str(place.dtype)[6:]}{list(place.shape)} on {place.device}"
            if place.shape != made.shape:
                raise ValueError(f"{argument}expected sizes {tuple(made.shape)}, got {found}")
            raise ValueError(f"{argument}expected {str(made.dtype)[6:]}, got {found}: dtype differs")
    place.copy_(made)
