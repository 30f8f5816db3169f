"""Ray: its serialisers by type, whose buffers lie in the object store and are mapped by each receiver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray.cloudpickle
import ray.util

from ..frameworks import Framework, describe, rebuild
from ..packs import as_buffer

ENGINE = "ray"


class _AsBefore:
    """An object that is sent as Ray would have sent it: unpickled, it is that object."""

    def __init__(self, reduced: Any) -> None:
        self._reduced = reduced

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._reduced


def _deserialize(state: Any) -> object:
    return rebuild(*state[1]) if type(state) is tuple and state[:1] == (_OURS,) else state


_OURS = "isthmus.distributed"


def register(cls: type, framework: Framework) -> Callable[[], None]:
    table = ray.cloudpickle.CloudPickler.dispatch
    before = table.get(cls)

    def serialize(x: Any) -> Any:
        described = describe(ENGINE, framework, x, as_buffer)
        if described is not None:
            return _OURS, described
        return _AsBefore(x.__reduce_ex__(5) if before is None else before(x))

    ray.util.register_serializer(cls, serializer=serialize, deserializer=_deserialize)
    ours = table[cls]

    def undo() -> None:
        if table.get(cls) is not ours:
            return
        if before is None:
            ray.util.deregister_serializer(cls)
        else:
            table[cls] = before

    return undo
