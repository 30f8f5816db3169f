"""Ray: its serialisers by type, whose buffers lie in the object store and are mapped by each receiver."""

from __future__ import annotations

from collections.abc import Callable

import ray.cloudpickle

from .. import messages
from ..frameworks import Framework, reducer
from ..packs import as_buffer
from .table import replace

ENGINE = "ray"


def start() -> Callable[[], None]:
    return messages.watch(ray.cloudpickle.CloudPickler)


def register(cls: type, framework: Framework) -> Callable[[], None]:
    table = ray.cloudpickle.CloudPickler.dispatch
    # register_serializer(), the hook, wraps what it puts into this table, so that nothing could go in Ray's own way.
    return replace(table, cls, reducer(ENGINE, framework, as_buffer, table.get(cls), 5))
