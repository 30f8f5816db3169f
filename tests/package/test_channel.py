"""Trees through a Channel: the same containers, names and values at the other end, in one piece of memory."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import json
import math
import os
import random
import socket
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import isthmus
from isthmus import _isthmus, shared

if sys.platform != "linux":
    pytest.skip("Linux", allow_module_level=True)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Request:
    name: str
    tokens: Any
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.name != "", "no constructor is called for what arrives"


@dataclasses.dataclass(frozen=True)
class Frozen:
    __slots__ = ("at",)
    at: Any


def through(x: Any, access: Any = "read_only") -> Any:
    left, right = shared.Channel.pair(access)
    with left, right:
        left.send(x)
        return right.receive()


def same(a: Any, b: Any) -> bool:
    """Whether what arrived is the same tree, with a Tensor for each array."""
    if isinstance(a, isthmus.Tensor):
        found = np.from_dlpack(isthmus.from_dlpack(a, copy=True))
        return bool(found.dtype == b.dtype and np.array_equal(found, b))
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


TREES = {
    "dict": {"ids": np.arange(7), "mask": np.ones((3, 4), bool), "step": 3, "name": "ä\ud800", "none": None},
    "keys": {1: 2, None: 3.5, False: "x", 2.5: np.zeros(2), "": []},
    "nested": [({"a": [np.arange(3.0)]}, ()), [[]], {}],
    "named tuple": Point(np.arange(4, dtype="int16"), Point(1, [np.zeros(0)])),
    "data class": Request("a", np.arange(5), {"best_of": 2, "logits": np.ones((2, 3), "float16")}),
    "slots": Frozen(np.arange(3)),
    "plain": [1, -1.5, 2**80, True, "x", b"\x00\xff", 1 + 2j, math.inf],
    "number": 7,
    "layouts": [np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1), np.arange(9)[::-1], np.arange(9)[::2], np.int32(4)],
    "many": [np.full(i % 5, i) for i in range(1000)],
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_arrives_as_it_was(name: str):
    x = TREES[name]
    assert same(through(x), x)


def test_layouts_are_kept_where_they_are_dense():
    fortran, reversed_, every_other = through(
        [np.arange(6).reshape(2, 3).T, np.arange(4)[::-1], np.arange(9)[::2]], "copy_on_write"
    )
    assert fortran.strides == (1, 3)
    assert reversed_.strides == (-1,)
    assert every_other.strides == (1,)
    np.asarray(fortran)[0, 0] = 5


def test_a_tree_is_one_piece_of_memory_and_one_descriptor():
    left, right = shared.Channel.pair()
    with left, right:
        x = np.arange(10)
        before = len(os.listdir("/proc/self/fd"))
        left.send({i: x + i for i in range(500)} | {"again": x, "and again": x})
        there = right.receive()
        assert len(os.listdir("/proc/self/fd")) - before <= 4
        assert there["again"] is there["and again"]
        addresses = [there[i].data_ptr for i in range(500)]
        assert max(addresses) - min(addresses) < 500 * 128
        assert all(address % 64 == 0 for address in addresses)
        kept = there[7]
        del there
        left.send({"new": np.zeros(100_000)})
        right.receive()
        assert np.asarray(kept).tolist() == (x + 7).tolist(), "one tensor keeps the memory of all"


def test_shared_tensors_are_not_copied():
    left, right = shared.Channel.pair("copy_on_write")
    with left, right:
        mine = left.empty((3, 4), "float32")
        other = left.empty((5,), "int8")
        left.send({"mine": mine, "copy": np.ones(3), "other": other, "again": mine})
        np.asarray(mine)[:] = 7
        np.asarray(other)[:] = 8
        there = right.receive()
        assert np.asarray(there["mine"]).tolist() == [[7] * 4] * 3
        assert np.asarray(there["other"]).tolist() == [8] * 5
        assert np.asarray(there["copy"]).tolist() == [1] * 3
        assert there["again"] is there["mine"]


def test_any_framework():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    there = through({"w": torch.ones(3, 4, dtype=torch.bfloat16).t(), "n": np.ones(2)})
    assert there["w"].dtype == "bfloat16"
    assert there["w"].strides == (1, 4)
    assert there["w"].to("torch", allow_read_only_loss=True).sum() == 12


class Column:
    """A column of a table, say: it has a reshape() of its own, and is no scalar of NumPy."""

    def __init__(self, values: np.ndarray) -> None:
        self.__array_interface__ = values.__array_interface__
        self.values = values

    def reshape(self, *_: object) -> object:
        raise NotImplementedError("columns have one dimension")


def test_only_scalars_of_numpy_are_reshaped():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for values in (np.arange(3.0), np.ones(1)):
        assert np.asarray(through([Column(values)])[0]).tolist() == values.tolist()
    for scalar in (np.float32(2), np.True_, ml_dtypes.bfloat16(2)):
        there = through({"x": scalar})["x"]
        assert (there.shape, there.dtype) == ((), isthmus.DType(scalar.dtype))
        assert there.to("numpy") == scalar


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ({"a": [1, {2}]}, r"'x': found <class 'set'>; expected an array, None, .* at x\['a'\]\[1\]"),
        (Request("a", object()), r"at x\.tokens"),
        ({(1, 2): 3}, r"found \(1, 2\); expected None, a bool, a number or a string as a key of x"),
        ([collections.OrderedDict(a=1)], r"found <class '.*OrderedDict'>; expected .*, at x\[0\]; dict\(\) makes one"),
        (
            collections.OrderedDict(a=1),
            r"found <class '.*OrderedDict'>; expected .* a dict, .*, at x; dict\(\) makes one",
        ),
        (object(), r"found <class 'object'>; expected an array, None, .* at x$"),
        ({1}, r"found <class 'set'>; expected an array, None, .* at x$"),
    ],
)
def test_what_cannot_be_sent_is_named_and_nothing_is_sent(x: Any, words: str):
    left, right = shared.Channel.pair()
    with left, right:
        with pytest.raises(TypeError, match=words):
            left.send(x)
        assert not right.poll()


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (np.array([None]), "dtype object"),
        (np.array(["a"]), "dtype <U1"),
        (np.zeros(2, ">f4"), "dtype >f4"),
        (np.ma.array([1], mask=[1]), "MaskedArray"),
    ],
)
def test_an_array_that_is_refused_has_its_place_named(leaf: Any, words: str):
    left, right = shared.Channel.pair()
    with left, right:
        with pytest.raises(isthmus.TensorBufferError, match=rf"^argument 'x', at x\['a'\]\[1\]: .*{words}") as info:
            left.send({"a": [np.ones(2), leaf]})
        with pytest.raises(isthmus.TensorBufferError, match=rf"^argument 'x': .*{words}") as alone:
            left.send(leaf)
        assert info.value.code == alone.value.code
        assert not right.poll()


class Labelled(Point):
    """A named tuple with room for attributes."""


@dataclasses.dataclass(frozen=True)
class WithSlot(Frozen):
    __slots__ = ("more",)


@dataclasses.dataclass
class Output(dict):
    loss: Any


@dataclasses.dataclass
class Cached:
    a: Any

    @functools.cached_property
    def doubled(self) -> Any:
        return self.a * 2


def test_what_a_struct_holds_besides_its_fields_is_not_lost():
    left, right = shared.Channel.pair()
    request, labelled, slotted = Request("a", np.ones(2)), Labelled(np.ones(2), 1), WithSlot(np.ones(2))
    request.seen, labelled.label = True, "cat"
    object.__setattr__(slotted, "more", 3)
    output = Output(np.ones(2))
    with left, right:
        for x, words in (
            (request, r"'seen'; expected a Request with no attributes but its fields \(name, tokens, options\), at x"),
            ([labelled], r"'label'; expected a Labelled with no attributes but its fields \(x, y\), at x\[0\]"),
            (slotted, r"'more'; expected a WithSlot with no attributes but its fields \(at\), at x"),
            (output, r"expected a data class that is not also a dict, at x"),
        ):
            with pytest.raises(TypeError, match=words):
                left.send(x)
            assert not right.poll()
        cached = Cached(np.ones(2))
        assert cached.doubled[0] == 2
        left.send(cached)
        assert np.asarray(right.receive().a).tolist() == [1, 1]
        left.send(Labelled(1, 2))
        assert type(right.receive()) is Labelled


def test_a_tree_that_holds_itself():
    x: list[Any] = []
    x.append(x)
    with pytest.raises(ValueError, match="at most 200 levels"):
        through(x)


def test_an_unknown_class_is_named_and_not_imported():
    left, right = shared.Channel.pair()
    with left, right:
        made = dataclasses.make_dataclass("Unheard", ["a"])
        made.__module__ = "wave"  # a module that nothing here imports
        sys.modules.pop("wave", None)
        left.send(made(np.ones(2)))
        with pytest.raises(isthmus.Error, match=r"wave\.Unheard, which this process does not know; import wave first"):
            right.receive()
        assert "wave" not in sys.modules
        left.send({"a": 1})
        assert right.receive() == {"a": 1}


def test_another_version_of_a_class_is_named(monkeypatch: pytest.MonkeyPatch):
    left, right = shared.Channel.pair()
    with left, right:
        left.send(Point(1, 2))
        monkeypatch.setattr(sys.modules[__name__], "Point", collections.namedtuple("Point", "x z"))
        with pytest.raises(isthmus.Error, match=r"Point of the fields x, y; expected x, z"):
            right.receive()


def test_a_receiver_without_a_channel_is_told():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, shared.Channel(ours) as left:
        left.send([1, np.ones(2)])
        with pytest.raises(isthmus.Error, match=r"receive trees with isthmus\.shared\.Channel"):
            shared.receive(theirs)
        left.send(np.ones(2))
        assert shared.receive(theirs).shape == (2,)


def send_raw(channel: shared.Channel, description: bytes, length: int | None = None, data: int = 64) -> None:
    said = len(description) if length is None else length
    flat = channel.empty((8 + len(description) + data,), "uint8")
    memoryview(flat)[: 8 + len(description)] = said.to_bytes(8, "little") + description
    _isthmus._shared_send(channel.fileno(), flat, "read_only", None, 2)


def test_a_hostile_tree_is_one_error():
    left, right = shared.Channel.pair()
    bad: list[Any] = [
        b"",
        b"[",
        b"[1]",
        b"[" * 100_000,
        b"\xff",
        b"[1,2,3]",
        b'{"a":1}',
        *(
            json.dumps([["x", 0], [offset, 0], [layout]]).encode()
            for offset, layout in (
                (0, ["float32", [40], None, False]),
                (1000, ["float32", [1], None, False]),
                (10**18, ["float32", [1], None, False]),
                (2**70, ["float32", [1], None, False]),
                (-4096, ["float32", [1], None, False]),
                (-4, ["float32", [200], None, False]),
                (0, ["float32", [2**62], None, False]),
                (0, ["float32", [2], [2**61], False]),
                (0, ["float32", [2], [-1000], False]),
                (0, ["float32", [2], [1, 1], False]),
                (1, ["float32", [1], None, False]),
                (0, ["nothing", [1], None, False]),
                (0, ["float32", [-1], None, False]),
                (0, ["float32", "a", None, False]),
                (0, ["float32", [1] * 65, None, False]),
                (0, ["float32", [1]]),
                (0, 7),
                ("a", ["float32", [1], None, False]),
                (None, ["float32", [1], None, False]),
            )
        ),
        *(
            json.dumps([["x", 0], table, [["float32", [1], None, False]]]).encode()
            for table in ([0], [0, 1], [0, -2], [None], {"a": 1}, "ab", 7, None, [[0], [0]])
        ),
        b'[["x",1],[],[]]',
        b'[["x",-1],[],[]]',
        b'[["?"],[],[]]',
        b"[[],[],[]]",
        b'[["d",[["l"],1]],[],[]]',
        b'[["b","\\u1234"],[],[]]',
        b'[["s","os","system",["a",1]],[],[]]',
        b'[["s","subprocess","Popen"],[],[]]',
        b'[["s",1,2],[],[]]',
        b'[["c","a"],[],[]]',
    ]
    with left, right:
        for description in bad:
            send_raw(left, description)
            try:
                there = right.receive()
            except isthmus.Error as error:
                assert error.code == "bad_message", (description[:80], error)
            else:
                raise AssertionError((description[:80], there))
        for length in (10**6, 2**63):
            send_raw(left, b"[1,[],[]]", length)
            with pytest.raises(isthmus.Error, match="a description of"):
                right.receive()
        for shape, dtype in (((3, 4), "uint8"), ((4,), "float32"), ((4,), "bfloat16"), ((), "uint8"), ((0,), "uint8")):
            _isthmus._shared_send(left.fileno(), left.empty(shape, dtype), "read_only", None, 2)
            with pytest.raises(isthmus.Error) as caught:
                right.receive()
            assert caught.value.code == "bad_message"
        left.send([1])
        assert right.receive() == [1]


def test_bytes_that_nobody_means():
    left, right = shared.Channel.pair()
    good = json.dumps([["d", ["a", ["x", 0]]], [0, 0], [["float32", [4], [1], False]]]).encode()
    numbers = random.Random(3)
    taken = 0
    with left, right:
        for _ in range(3000):
            description = bytearray(good)
            for _ in range(numbers.randint(1, 3)):
                description[numbers.randrange(len(good))] = numbers.choice(b'[]{}",:0123456789-xadle\x00\xff')
            send_raw(left, bytes(description))
            try:
                there = right.receive()
            except isthmus.Error as error:
                assert error.code == "bad_message"
            else:
                taken += 1
                repr(there)
    assert 0 < taken < 3000


def test_a_tree_whose_sender_gave_up_is_not_missed():
    left, right = shared.Channel.pair()
    with left, right:
        mine = left.empty((2,), "int8")
        _isthmus._shared_send(left.fileno(), left.empty((9,), "int8"), "read_only", None, 1)
        left.send([mine])
        assert right.receive()[0].shape == (2,)
        _isthmus._shared_send(left.fileno(), left.empty((9,), "int8"), "read_only", None, 1)
        left.send(np.ones(3))
        assert right.receive().shape == (3,)


def test_poll():
    left, right = shared.Channel.pair()
    with right:
        assert not right.poll()
        start = time.monotonic()
        assert not right.poll(0.05)
        assert time.monotonic() - start >= 0.04
        threading.Timer(0.05, left.send, ([1],)).start()
        assert right.poll(None)
        assert right.poll(30)
        assert right.receive() == [1]
        left.close()
        assert right.poll()
        with pytest.raises(EOFError):
            right.receive()


def test_asyncio():
    """Both ends in one loop: the sender waits for memory and for the socket, the reader for messages."""

    async def sender(channel: shared.Channel) -> None:
        for i in range(300):
            await channel.asend({"step": i, "x": np.full(1000, i)})
        channel.close()

    async def reader(channel: shared.Channel) -> int:
        total = 0
        async for tree in channel:
            assert np.asarray(tree["x"])[0] == tree["step"]
            total += tree["step"]
            await asyncio.sleep(0)
        return total

    async def both() -> int:
        left, right = shared.Channel.pair(limit=1 << 20)
        with right:
            nothing = asyncio.ensure_future(right.areceive())
            await asyncio.sleep(0.01)
            nothing.cancel()
            writing = asyncio.ensure_future(sender(left))
            total = await reader(right)
            await writing
            return total

    assert asyncio.run(asyncio.wait_for(both(), 60)) == sum(range(300))


def test_asend_of_what_never_fits_does_not_wait():
    left, right = shared.Channel.pair(limit=1 << 20)
    with left, right, pytest.raises(MemoryError, match="limit"):
        asyncio.run(asyncio.wait_for(left.asend([np.zeros(1 << 20)]), 60))
