"""Dask's distributed: its serialisers by type, whose frames it sends as they are."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import pickle
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import cloudpickle
from distributed.protocol import dask_deserialize, dask_serialize
from distributed.protocol.serialize import families, typename
from distributed.worker import Worker

from ..counts import count
from ..frameworks import Framework, describe, rebuild
from ..packs import as_buffer
from ..policies import Policy, policy_of
from ..spans import Layout
from . import dask_plugin
from .table import all_of, replace

ENGINE = "dask"

_OURS = "isthmus.distributed"


class Message:
    """The type that a header names, by way of dask_plugin.reader(): `_deserialize` is registered for it."""


class _Reader:
    def __reduce__(self) -> tuple[Any, ...]:
        return dask_plugin.reader, ()


def _by_value(x: object) -> bytes:
    """Pickled so that what is in dask_plugin needs no isthmus."""
    cloudpickle.register_pickle_by_value(dask_plugin)
    try:
        return cloudpickle.dumps(x)  # type: ignore[no-any-return]
    finally:
        cloudpickle.unregister_pickle_by_value(dask_plugin)


def _deserialize(header: dict[str, Any], frames: list[Any]) -> object:
    """What `_described` has made, in any process that has isthmus, enabled or not."""
    return rebuild(*pickle.loads(frames[0], buffers=[_writable(frame) for frame in frames[1:]]))


dask_deserialize.register(Message)(_deserialize)


def _writable(frame: Any) -> Any:
    """Dask reads into memory of the receiver alone, but decompresses into `bytes`, and keeps what it spills in them."""
    view = memoryview(frame)
    if not view.readonly:
        return frame
    count("copied")
    return bytearray(view)


def _goes_as_before(framework: Framework, x: Any) -> bool:
    """Whether Dask's own serialiser gives the same, in less time."""
    name = framework.name
    if name == "torch":
        # Dask's keeps .grad, which no other engine does.
        if x.is_leaf and x.grad is not None:
            return True
        if x.is_nested or not x.is_cpu or not _is_numpys(x.dtype, x.layout) or x.is_conj() or x.is_neg():
            return False
        if x.numel() == 0:  # whose strides NumPy does not keep
            return False
        if x.is_contiguous():
            return policy_of(ENGINE) == "copy_on_write"
        x = x.detach().numpy()
    elif name != "numpy":
        return False
    dtype = x.dtype
    # 2: ml_dtypes, whose names Dask does not know.
    plain = dtype.kind in "biufcMmSU" and dtype.isbuiltin != 2 and policy_of(ENGINE) == "copy_on_write"
    return plain and (x.flags.forc or _keeps_layout(x))


@functools.cache
def _is_numpys(dtype: Any, layout: Any) -> bool:
    """Whether torch shows tensors of this kind as NumPy arrays."""
    import torch

    try:
        torch.empty((0,), dtype=dtype, layout=layout, device="cpu").numpy()
    except (TypeError, RuntimeError):
        return False
    return True


def _keeps_layout(x: Any) -> bool:
    """Whether Dask keeps the strides, or copies what isthmus would copy, too: elements with gaps between them."""
    if not x.size or 0 in x.strides:
        return True
    low, high = Layout(0, x.shape, x.strides, x.itemsize).reach()
    return bool(high - low > x.nbytes)


def _described(framework: Framework, x: Any) -> tuple[dict[str, Any], list[Any]] | None:
    described = describe(ENGINE, framework, x, as_buffer)
    if described is None:
        return None
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(described, protocol=5, buffer_callback=buffers.append)
    return {_OURS: 1}, [head, *(buffer.raw() for buffer in buffers)]


_frameworks: dict[type, Framework] = {}


class _OwnWay(NamedTuple):
    """Dask's own serialiser of a type, and what its headers say of each instance alike."""

    dumps: Callable[..., tuple[dict[str, Any], list[Any]]]
    takes_context: bool
    header: dict[str, Any]

    def serialize(self, x: Any, context: Any) -> tuple[dict[str, Any], list[Any]]:
        sub_header, frames = self.dumps(x, context=context) if self.takes_context else self.dumps(x)
        return {**self.header, "sub-header": sub_header}, frames


#: Dask makes the same again for each tensor, in as much time as the rest takes.
_own_ways: dict[type, _OwnWay] = {}


def _learn(cls: type, header: dict[str, Any]) -> None:
    serializer = dask_serialize._lookup.get(cls)
    known = {"sub-header", "type", "type-serialized", "serializer"}
    if isinstance(serializer, _Serializer) and serializer.before is not None and set(header) == known:
        same = {name: value for name, value in header.items() if name != "sub-header"}
        _own_ways[cls] = _OwnWay(serializer.before, serializer.takes_context, same)


def _family(before: Callable[..., Any]) -> Callable[..., Any]:
    """Dask's family of serialisers by type, with ours before them."""
    named = _by_value(_Reader())

    def dumps(x: Any, context: Any = None) -> tuple[dict[str, Any], list[Any]]:
        cls = type(x)
        framework = _frameworks.get(cls)
        if framework is None:
            return before(x, context=context)  # type: ignore[no-any-return]
        if _goes_as_before(framework, x):
            own_way = _own_ways.get(cls)
            if own_way is not None:
                return own_way.serialize(x, context)
            header, frames = before(x, context=context)
            _learn(cls, header)
            return header, frames
        made = _described(framework, x)
        if made is None:
            return before(x, context=context)  # type: ignore[no-any-return]
        header, frames = made
        # As Dask's own: older versions merge the two dictionaries that newer ones keep apart.
        return {**header, "sub-header": header, "type": typename(type(x)), "type-serialized": named}, frames

    return dumps


class _Serializer:
    """The entry of a type in Dask's table, which serves objects that hold one."""

    def __init__(self, framework: Framework, before: Callable[..., Any] | None) -> None:
        self._framework, self.before = framework, before
        self.takes_context = before is not None and "context" in inspect.signature(before).parameters

    def __call__(self, x: Any, context: Any = None) -> Any:
        if not _goes_as_before(self._framework, x):
            made = _described(self._framework, x)
            if made is not None:
                return made
        if self.before is None:
            raise NotImplementedError  # Dask pickles it
        return self.before(x, context=context) if self.takes_context else self.before(x)


class _Deserializer:
    """The same for what arrives. It is pickled as a part of objects that hold a tensor, and read anywhere."""

    def __init__(self, cls: type, before: Callable[..., Any] | None) -> None:
        self._cls, self._before = cls, before

    def __reduce__(self) -> tuple[Any, ...]:
        return _deserializer_of, (self._cls,)

    def __call__(self, header: dict[str, Any], frames: list[Any]) -> object:
        if _OURS in header:
            return _deserialize(header, frames)
        if self._before is None:
            raise TypeError(f"no frames of isthmus.distributed: {header!r}")
        return self._before(header, frames)


def _deserializer_of(cls: type) -> _Deserializer:
    known = _own(dask_deserialize, cls)
    return known if isinstance(known, _Deserializer) else _Deserializer(cls, known)


def _own(dispatch: Any, cls: type) -> Callable[..., Any] | None:
    """Dask's own choice, with its own registrations made first: they wait for the first object of a framework."""
    try:
        return dispatch.dispatch(cls)  # type: ignore[no-any-return]
    except TypeError:
        return None


def _import_jax() -> None:
    import jax  # noqa: F401


# Workers that come later: the scheduler hands each one the plugins that it knows.


def _request(policy: Policy | None) -> dict[str, Any]:
    """What a scheduler is told, as Client.run_on_scheduler() does."""
    plugin = None if policy is None else _by_value(dask_plugin.Enable(policy))
    function = _by_value(dask_plugin.remember)
    return {"function": function, "args": pickle.dumps((dask_plugin.NAME, plugin)), "kwargs": pickle.dumps({})}


#: The policy of the last enable(); None after disable().
_wanted: Policy | None = None
#: One at a time: a later call must not be overtaken by an earlier one.
_telling: weakref.WeakKeyDictionary[Any, asyncio.Lock] = weakref.WeakKeyDictionary()


def _tell_schedulers(policy: Policy | None) -> None:
    """Workers that come later are enabled with `policy`, or with None not any more: said by each worker that runs in
    this process to its scheduler, in its event loop."""
    global _wanted
    _wanted = policy
    for worker in list(Worker._instances):
        with contextlib.suppress(RuntimeError):  # its event loop has ended
            worker.loop.add_callback(_tell, worker)


async def _tell(worker: Any) -> None:
    async with _telling.setdefault(worker, asyncio.Lock()):
        with contextlib.suppress(Exception):  # a scheduler that is gone, or runs no functions
            await worker.scheduler.run_function(**_request(_wanted), wait=True)


def spread(policy: Policy) -> None:
    """Called by each enable()."""
    _tell_schedulers(policy)


def start() -> Callable[[], None]:
    own, loads, takes_context = families["dask"]
    before = own if takes_context else lambda x, context=None: own(x)
    undo = [
        replace(families, "dask", (_family(before), loads, True)),
        # The type of JAX's arrays, which Dask looks up before it deserialises one, is not JAX's own.
        replace(dask_deserialize._lazy, "jaxlib", _import_jax),
        lambda: _tell_schedulers(None),
    ]
    return all_of(undo)


def register(cls: type, framework: Framework) -> Callable[[], None]:
    serializer = _Serializer(framework, _own(dask_serialize, cls))
    deserializer = _Deserializer(cls, _own(dask_deserialize, cls))
    undo = [replace(_frameworks, cls, framework), lambda: _own_ways.clear()]
    for dispatch, ours in ((dask_serialize, serializer), (dask_deserialize, deserializer)):
        # register() is the hook; the table has what it would replace, and no other way to take it back.
        undo.append(replace(dispatch._lookup, cls, ours))
        undo.append(_forget_subclasses(dispatch, cls, ours))
    return all_of(undo)


def _forget_subclasses(dispatch: Any, base: type, ours: object) -> Callable[[], None]:
    """Dask records for each subclass that it meets which entry serves it."""

    def undo() -> None:
        found = [cls for cls, function in dispatch._lookup.items() if function is ours and cls is not base]
        for cls in found:
            del dispatch._lookup[cls]

    return undo
