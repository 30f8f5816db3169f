"""multiprocessing and concurrent.futures: every queue, pipe and pool pickles with ForkingPickler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .. import transit
from ..frameworks import Framework, describe, rebuild
from ..packs import as_ticket
from .table import replace

ENGINE = "multiprocessing"


def reducer(engine: str, framework: Framework, before: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """The function that reduces a framework's tensors to tickets; what it cannot send goes through `before`."""

    def reduce(x: Any) -> Any:
        described = None if _is_torch_shared(framework, x) else describe(engine, framework, x, as_ticket)
        if described is not None:
            return rebuild, described
        return x.__reduce_ex__(4) if before is None else before(x)

    return reduce


def _is_torch_shared(framework: Framework, x: Any) -> bool:
    """Whether the user has asked torch to share the memory, writes included (share_memory_)."""
    if framework.name != "torch":
        return False
    torch = sys.modules["torch"]
    return x.device.type == "cpu" and x.layout is torch.strided and bool(x.is_shared())


def start() -> Callable[[], None]:
    transit.wait_at_exit()
    return lambda: None


def register(cls: type, framework: Framework) -> Callable[[], None]:
    table = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    # register() is the hook; the table has what it would replace, and no other way to take it back.
    return replace(table, cls, reducer(ENGINE, framework, table.get(cls)))
