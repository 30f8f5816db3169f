"""torch's tensors in a message: a storage once, and how each view lies in it."""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from ..dtypes import dtype_of
from .pieces import Arrived, Layout, Pack, Piece, piece_of, typed
from .policies import Policy


def types() -> tuple[type, ...]:
    torch = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter


@functools.cache
def _name_of(dtype: Any) -> str:
    """DLPack's name of a torch dtype; empty if it has none."""
    try:
        return dtype_of(dtype)[0].name
    except Exception:
        return ""


def _is_plain(x: Any, torch: Any) -> bool:
    """Whether its bytes are its values, and all that there is to it."""
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and x.layout is torch.strided
        and x.device.type == "cpu"
        and not (x.is_conj() or x.is_neg() or x.is_quantized or x._is_zerotensor() or any(getattr(x, "names", ())))
        and (x.is_leaf or not x.requires_grad)
        and not x.__dict__
        and not x._backward_hooks
    )


def describe(x: Any, pack: Pack) -> tuple[Piece, Layout, Any] | None:
    torch = sys.modules["torch"]
    if not _is_plain(x, torch):
        return None
    try:
        base = x.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper of one of torch's transformations
        return None
    item = x.element_size()
    layout = Layout(x.storage_offset() * item, tuple(x.shape), tuple(step * item for step in x.stride()), item)
    if base == 0 and layout.nbytes:
        return None

    def compact() -> tuple[int, object]:
        copy = x.detach().contiguous()
        return copy.data_ptr(), copy

    piece = piece_of(pack, layout, base, x.detach(), compact)
    return (
        piece,
        layout,
        (str(x.dtype).removeprefix("torch."), x.requires_grad, type(x) is torch.nn.Parameter, _name_of(x.dtype)),
    )


def _view(arrived: Arrived, original: Layout, dtype: Any, policy: Policy) -> Any:
    import torch

    def storage() -> Any:
        flat = arrived.copied() if policy == "copy" else arrived.private()
        return flat.to("torch").untyped_storage()

    layout = arrived.layout(original)
    item = layout.itemsize
    strides = tuple(step // item for step in layout.strides)
    made = torch.empty(0, dtype=dtype)
    return made.set_(arrived.once("torch", storage), layout.position // item, layout.shape, strides)


def _follow(made: Any, arrived: Arrived, original: Layout, dtype: Any, policy: Policy) -> None:
    """Should a wider piece of the storage follow in the message, the tensor becomes a view of that one."""
    weak = weakref.ref(made)

    def move(wide: Arrived) -> None:
        living = weak()
        if living is not None:
            living.data = _view(wide, original, dtype, policy)
            _follow(living, wide, original, dtype, policy)

    arrived.when_replaced(move)


def rebuild(arrived: Arrived, original: Layout, told: Any, policy: Policy) -> object:
    dtype, requires_grad, is_parameter, name = told
    if policy == "tensor" and name:
        return typed(arrived.once("tensor", arrived.read_only), arrived.layout(original), name)
    import torch

    kind = getattr(torch, dtype)
    made = _view(arrived, original, kind, policy)
    if is_parameter:
        made = torch.nn.Parameter(made, requires_grad=requires_grad)
    elif requires_grad:
        made.requires_grad_()
    _follow(made, arrived, original, kind, policy)
    return made
