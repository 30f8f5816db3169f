"""Dask's distributed: its serialisers by type, whose frames it sends as they are."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from distributed.protocol import dask_deserialize, dask_serialize

from ..frameworks import Framework, describe, rebuild
from ..packs import as_buffer
from .table import replace

ENGINE = "dask"

_OURS = "isthmus.distributed"


def _serializer(framework: Framework, before: Callable[..., Any] | None) -> Callable[..., Any]:
    takes_context = before is not None and "context" in inspect.signature(before).parameters

    def serialize(x: Any, context: Any = None) -> Any:
        # torch's serialiser of Dask keeps .grad, which no other engine does.
        described = None if getattr(x, "grad", None) is not None else describe(ENGINE, framework, x, as_buffer)
        if described is not None:
            buffers: list[pickle.PickleBuffer] = []
            head = pickle.dumps(described, protocol=5, buffer_callback=buffers.append)
            return {_OURS: 1}, [head, *(buffer.raw() for buffer in buffers)]
        if before is None:
            raise NotImplementedError  # Dask pickles it
        return before(x, context=context) if takes_context else before(x)

    return serialize


def _deserializer(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def deserialize(header: dict[str, Any], frames: list[Any]) -> object:
        if _OURS not in header:
            if before is None:
                raise TypeError(f"no frames of isthmus.distributed: {header!r}")
            return before(header, frames)
        return rebuild(*pickle.loads(frames[0], buffers=frames[1:]))

    return deserialize


def _own(dispatch: Any, cls: type) -> Callable[..., Any] | None:
    """Dask's own choice, with its own registrations made first: they wait for the first object of a framework."""
    try:
        return dispatch.dispatch(cls)  # type: ignore[no-any-return]
    except TypeError:
        return None


def _import_jax() -> None:
    import jax  # noqa: F401


def start() -> Callable[[], None]:
    # The type of JAX's arrays, which Dask looks up before it deserialises one, is not JAX's own.
    return replace(dask_deserialize._lazy, "jaxlib", _import_jax)


def register(cls: type, framework: Framework) -> Callable[[], None]:
    undo = []
    for dispatch, make in ((dask_serialize, partial(_serializer, framework)), (dask_deserialize, _deserializer)):
        ours = make(_own(dispatch, cls))
        # register() is the hook; the table has what it would replace, and no other way to take it back.
        undo.append(replace(dispatch._lookup, cls, ours))
        undo.append(_forget_subclasses(dispatch, cls, ours))

    def undo_all() -> None:
        for one in reversed(undo):
            one()

    return undo_all


def _forget_subclasses(dispatch: Any, base: type, ours: object) -> Callable[[], None]:
    """Dask records for each subclass that it meets which entry serves it."""

    def undo() -> None:
        found = [cls for cls, function in dispatch._lookup.items() if function is ours and cls is not base]
        for cls in found:
            del dispatch._lookup[cls]

    return undo
