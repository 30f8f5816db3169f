"""multiprocessing and concurrent.futures: every queue, pipe and pool pickles with ForkingPickler."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .. import frameworks, messages, transit
from ..frameworks import Framework
from ..packs import as_bytes_or_ticket, as_ticket
from .table import all_of, replace

ENGINE = "multiprocessing"
_PROTOCOL = max(5, pickle.DEFAULT_PROTOCOL)


def reducer(engine: str, framework: Framework, before: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """The function that reduces a framework's tensors to tickets; what it cannot send goes through `before`."""
    goes_before = _is_torch_shared if framework.name == "torch" else None
    # XLA copies what is not aligned.
    pack = as_ticket if framework.name in ("jax", "tensorflow") else as_bytes_or_ticket
    return frameworks.reducer(engine, framework, pack, before, 4, through_pipes=True, goes_before=goes_before)


def _is_torch_shared(x: Any) -> bool:
    """Whether the user has asked torch to share the memory, writes included (share_memory_)."""
    torch = sys.modules["torch"]
    if not x.is_cpu or x.layout is not torch.strided or x.is_nested:
        return False
    try:
        return bool(x.untyped_storage().is_shared())
    except RuntimeError:  # a wrapper of one of torch's transformations
        return False


def start() -> Callable[[], None]:
    transit.prepare()
    return all_of([messages.watch(ForkingPickler), _use_protocol_5()])


def _use_protocol_5() -> Callable[[], None]:
    """Elements go from an array into the message as a buffer (PEP 574), without bytes between. Every Python reads it;
    from 3.14 on it is the default. Returns a function that takes it back."""
    before = ForkingPickler.__init__

    def init(self: Any, file: Any, protocol: int | None = None, *more: Any) -> None:
        self.proto = _PROTOCOL if protocol is None else protocol
        before(self, file, self.proto, *more)

    def undo() -> None:
        if ForkingPickler.__init__ is init:
            ForkingPickler.__init__ = before  # type: ignore[method-assign]

    ForkingPickler.__init__ = init  # type: ignore[method-assign]
    return undo


def register(cls: type, framework: Framework) -> Callable[[], None]:
    table = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    # register() is the hook; the table has what it would replace, and no other way to take it back.
    return replace(table, cls, reducer(ENGINE, framework, table.get(cls)))
