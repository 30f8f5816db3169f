"""What a message holds is found before it is pickled, and without a call of what its user has written."""

from __future__ import annotations

import collections
import functools
import multiprocessing
from typing import Any

import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from isthmus.distributed import messages  # noqa: E402  # which needs these

calls: list[str] = []


class Lazy(dict[str, Any]):
    """Loads what it holds when it is asked for it, and is pickled by what it would load it from."""

    def values(self) -> Any:
        calls.append("values")
        return super().values()

    def __reduce__(self) -> Any:
        return dict, ()


def noted(base: type) -> type:
    def iterate(self: Any) -> Any:
        calls.append(base.__name__)
        return base.__iter__(self)

    return type("Noted", (base,), {"__iter__": iterate, "__reduce__": lambda self: (base, ())})


class Slots:
    __slots__ = ("_made",)


class Property(Slots):
    @property
    def _made(self) -> Any:  # type: ignore[override]
        calls.append("property")
        return 1

    def __getattr__(self, name: str) -> Any:
        calls.append(name)
        raise AttributeError(name)

    def __reduce__(self) -> Any:
        return int, ()


class Proxy:
    """Of an object that is made when it is first asked for its class."""

    @property
    def __class__(self) -> Any:
        calls.append("class")
        return dict

    @__class__.setter
    def __class__(self, _: Any) -> None: ...

    def __reduce__(self) -> Any:
        return int, ()


def test_nothing_of_its_user_is_called() -> None:
    isthmus.distributed.enable("multiprocessing")
    view = torch.ones(30_000, 4)[:, ::2]
    kinds = [noted(kind)([1]) for kind in (list, set, frozenset, tuple, collections.deque)]
    ours, theirs = multiprocessing.Pipe()
    calls.clear()
    ours.send([Lazy(a=1), *kinds, Property(), Proxy(), view])
    assert calls == []
    assert torch.equal(theirs.recv()[-1], view)


class Private:
    __slots__ = ("__x", "rest")

    def __init__(self, x: Any) -> None:
        self.__x = x


def test_what_objects_hold_is_found() -> None:
    isthmus.distributed.enable("multiprocessing")
    tensors = [torch.ones(3) for _ in range(6)]
    Struct = collections.namedtuple("Struct", "x")
    sub = noted(list)([tensors[0]])
    sub.more = tensors[1]
    holders = [sub, Struct(tensors[2]), Private(tensors[3]), functools.partial(max, tensors[4])]
    holders.append(collections.OrderedDict(a=tensors[5]))
    found = messages.Message(holders, None).tensors
    assert found is not None
    assert {id(x) for x in found} == {id(x) for x in tensors}
