"""Copying is a request, never an accident: `copy=False` and Copy::never reach the producer,
and a copy is called a copy.

Promised: `isthmus.from_dlpack(x, copy=False)` "never copies" (its docstring), C++'s Copy::never, the default, is "share
the memory, or fail" (docs/import.md). The array API standard 2024.12 gives `__dlpack__(copy=)` the same three values: a
producer may copy under None, and must raise BufferError under False where it cannot share.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")


class Producer:
    """Shares where it is told to, copies where it may, and notes what it was asked. It does not flag its copies: that
    is what the flag is for, and what many forget."""

    def __init__(self, can_share: bool = True) -> None:
        self.memory, self.can_share, self.asked = np.arange(4.0), can_share, []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None) -> object:
        self.asked.append(copy)
        if copy is False and not self.can_share:
            raise BufferError("only as a copy")
        source = self.memory if copy is False else self.memory.copy()
        return source.__dlpack__(max_version=(1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class BeforeCopy:
    """As DLPack 1.0 was before the standard had `copy`: refuses the keyword, and flags what it copied."""

    def __init__(self, copies: bool) -> None:
        self.memory, self.copies, self.asked = np.arange(4.0), copies, []

    def __dlpack__(self, *, stream=None, max_version=None) -> object:
        self.asked.append(max_version)
        return self.memory.__dlpack__(max_version=(1, 0), copy=True if self.copies else None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def python_copy_false(x: object) -> dict:
    return ext.own(isthmus.from_dlpack(x, copy=False))


NEVER: dict[str, Callable] = {"borrow_py": ext.borrow, "from_py": ext.own, "from_dlpack(copy=False)": python_copy_false}
never = pytest.mark.parametrize("call", NEVER.values(), ids=NEVER)


@never
def test_false_reaches_the_producer(call: Callable) -> None:
    x = Producer()
    assert call(x)["data"] == x.memory.ctypes.data
    assert x.asked == [False]


@never
def test_who_can_only_copy_is_refused(call: Callable) -> None:
    x = Producer(can_share=False)
    with pytest.raises(ext.Error) as info:
        call(x)
    assert isinstance(info.value, BufferError)
    assert isinstance(info.value.__cause__, BufferError)
    # A BufferError may be about the version as well, so that it is asked again; with None it would copy.
    assert set(x.asked) == {False}


@never
def test_a_producer_that_does_not_know_the_keyword(call: Callable) -> None:
    """It is asked again without it, and still with `max_version`, so that its flag tells of a copy."""
    x = BeforeCopy(copies=False)
    assert call(x)["data"] == x.memory.ctypes.data
    assert x.asked[-1] is not None
    with pytest.raises(ext.Error) as info:
        call(BeforeCopy(copies=True))
    assert info.value.code == "needs_copy"


def test_none_reaches_the_producer_as_none() -> None:
    x = Producer()
    isthmus.from_dlpack(x)
    assert x.asked == [None]
    ext.own(x, copy="if_needed")
    assert x.asked == [None, None]


class FreshBytes:
    """As Pillow's images: `__array_interface__` writes the elements into new bytes every time it is asked."""

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (4,), "typestr": "|u1", "version": 3, "data": bytes(bytearray(b"abcd"))}


class KeptBytes:
    """The memory of the object itself, though the dict is new each time."""

    memory = bytearray(b"abcd")

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (4,), "typestr": "|u1", "version": 3, "data": self.memory}


@never
def test_bytes_made_for_the_question_are_a_copy(call: Callable) -> None:
    with pytest.raises(ext.Error) as info:
        call(FreshBytes())
    assert info.value.code == "needs_copy"
    assert isinstance(info.value, BufferError)


@pytest.mark.parametrize("call", [ext.borrow, ext.own])
def test_bytes_made_for_the_question_are_flagged(call: Callable) -> None:
    found = call(FreshBytes(), copy="if_needed")
    assert found["copied"]


def test_from_dlpack_takes_the_copy_and_says_so() -> None:
    t = isthmus.from_dlpack(FreshBytes())
    assert t.is_copied
    assert np.asarray(t).tobytes() == b"abcd"


@never
def test_memory_of_the_object_is_no_copy(call: Callable) -> None:
    found = call(KeptBytes())
    assert found["data"] == np.frombuffer(KeptBytes.memory, np.uint8).ctypes.data
    assert not found["copied"]


def test_pillow() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (4, 2))
    with pytest.raises(isthmus.Error) as info:
        isthmus.from_dlpack(image, copy=False)
    assert info.value.code == "needs_copy"
    assert isthmus.from_dlpack(image).is_copied
