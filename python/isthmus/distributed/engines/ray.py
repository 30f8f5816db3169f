"""Ray: its serialisers by type, whose buffers lie in the object store and are mapped by each receiver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray.cloudpickle

from .. import messages, policies
from ..frameworks import Framework, reducer
from ..packs import as_buffer
from .table import all_of, replace

ENGINE = "ray"

# The channels of a compiled graph write each message over the one before, and wait until nobody maps that any more:
# what a reader keeps is its own copy. NumPy goes as Ray sends it there, which is not copied, and must not be kept.
CHANNEL = "ray channel"
_CHANNELS = "ray.experimental.channel."


def start() -> Callable[[], None]:
    policies.choose(CHANNEL, "copy")
    return all_of([lambda: policies.forget(CHANNEL), messages.watch(ray.cloudpickle.CloudPickler)])


def register(cls: type, framework: Framework) -> Callable[[], None]:
    table = ray.cloudpickle.CloudPickler.dispatch
    before = table.get(cls)
    usual = reducer(ENGINE, framework, as_buffer, before, 5)
    own = before or (lambda x: x.__reduce_ex__(5))
    through_channel = own if framework.name == "numpy" else reducer(CHANNEL, framework, as_buffer, before, 5)

    def reduce(x: Any) -> Any:
        now = messages.message()
        return (through_channel if now is not None and now.is_sent_by(_CHANNELS) else usual)(x)

    # register_serializer(), the hook, wraps what it puts into this table, so that nothing could go in Ray's own way.
    return replace(table, cls, reduce)
