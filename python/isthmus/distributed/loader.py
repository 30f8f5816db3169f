"""Batches of torch.utils.data.DataLoader, made where the training process will read them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .._isthmus import Error
from . import transit


def _stack(batch: list[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """As torch's own, for tensors of one shape on the CPU, into memory that is sent as it is."""
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn

    first = batch[0]
    plain = type(first) is torch.Tensor and first.device.type == "cpu" and first.layout is torch.strided
    nbytes = first.nbytes * len(batch)
    if not plain or nbytes <= transit.INLINE or any(x.shape != first.shape or x.dtype != first.dtype for x in batch):
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    try:
        memory = transit.memory(nbytes)
    except (Error, OSError):  # none to spare
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    made = memory.to("torch").view(first.dtype).view(len(batch), *first.shape)
    torch.stack(batch, out=made)
    # Not written here any more, so a message can take the memory itself, if the batch is ever sent.
    transit.give(memory)
    weakref.finalize(made, transit.take_back, memory.data_ptr)
    return made


def collate(batch: list[Any]) -> Any:
    """A `collate_fn` for torch.utils.data.DataLoader: batches as torch's default_collate makes them, of the same nested
    kinds, in memory that the training process maps instead of copying, and that is used again when it is done with a
    batch.

    >>> isthmus.distributed.enable("multiprocessing")
    >>> loader = torch.utils.data.DataLoader(
    ...     dataset, batch_size=64, num_workers=2, collate_fn=isthmus.distributed.collate
    ... )

    Workers that are spawned need `worker_init_fn` to enable multiprocessing in them; forked ones have it. Nothing in a
    worker may keep a batch in order to write to it later.
    """
    import torch
    from torch.utils.data import get_worker_info
    from torch.utils.data._utils import collate as torch_collate

    functions = torch_collate.default_collate_fn_map
    if get_worker_info() is not None:
        functions = {**functions, torch.Tensor: _stack}
    return torch_collate.collate(batch, collate_fn_map=functions)
