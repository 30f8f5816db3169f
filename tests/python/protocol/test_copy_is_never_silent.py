"""Copying is a request, never an accident: `copy=False` and Copy::never reach the producer,
and a copy is called a copy.

Promised: `isthmus.from_dlpack(x, copy=False)` "never copies" (its docstring), C++'s Copy::never, the default, is "share
the memory, or fail" (docs/import.md). The array API standard 2024.12 gives `__dlpack__(copy=)` the same three values: a
producer may copy under None, and must raise BufferError under False where it cannot share.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import arrow
import interrupts
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


# Protocols that have no word for a copy: memory made for each question is told by a second question, if there is a
# reason to ask it.


class NewArray:
    """`__array_interface__` gives an array that is made of the elements for each question."""

    made = 0

    def fresh(self) -> object:
        return np.arange(4.0)

    @property
    def __array_interface__(self) -> dict:
        self.made += 1
        return {"shape": (4,), "typestr": "<f8", "version": 3, "data": self.fresh()}


class NewView(NewArray):
    def fresh(self) -> object:
        return memoryview(np.arange(4.0))


class NewBytes(NewArray):
    def fresh(self) -> object:
        return (ctypes.c_double * 4)(0, 1, 2, 3)


def new_buffer() -> object:
    if sys.version_info < (3, 12):
        pytest.skip("classes have no buffer protocol before CPython 3.12")

    class NewBuffer:
        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(np.arange(4.0))

    return NewBuffer()


class Device:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class NewLegacy(Device):
    """The producer of before the array API's 2023 standard: neither a keyword nor a flag for a copy."""

    def __dlpack__(self, stream: object = None) -> object:
        return np.arange(4.0).__dlpack__()


class NewLegacyWithKeywords(Device):
    """It takes every keyword and heeds none."""

    def __dlpack__(self, **_: object) -> object:
        return np.arange(4.0).__dlpack__()


class NewLegacyWithStruct(NewLegacy):
    """`__array_struct__` is asked whether the memory may be written."""

    @property
    def __array_struct__(self) -> object:
        return np.arange(4.0).__array_struct__


class NewSubclass(np.ndarray):
    def __dlpack__(self, **_: object) -> object:
        return np.arange(4.0).__dlpack__()


def new_subclass() -> object:
    return np.arange(4.0).view(NewSubclass)


def on_the_instance() -> object:
    class Bare(Device):
        pass

    x = Bare()
    x.__dlpack__ = lambda **_: np.arange(4.0).__dlpack__()
    return x


class NewAddress:
    """`__array_interface__` of an array that is made for each question, and kept by the dict."""

    @property
    def __array_interface__(self) -> dict:
        made = np.arange(4.0)
        return {**made.__array_interface__, "made": made}


class RefusesDLPack(NewAddress, Device):
    def __dlpack__(self, **_: object) -> object:
        raise BufferError("DLPack cannot say it")


class NewArrow:
    def __init__(self) -> None:
        self.made: list[object] = []

    def new(self, kind: type) -> object:
        self.made.append(kind(range(4), ctypes.c_double, b"g"))
        return self.made[-1]

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.new(arrow.Plain).__arrow_c_array__()


class NewDeviceArrow(NewArrow):
    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> object:
        return self.new(arrow.OnDevice).__arrow_c_device_array__()


def pandas_series() -> object:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    return pandas.Series(np.arange(8.0))[::2]


TEMPORARY = pytest.mark.parametrize(
    "made",
    [
        NewArray, NewView, NewBytes, NewAddress, RefusesDLPack, NewLegacy, NewLegacyWithKeywords, NewLegacyWithStruct,
        new_subclass, on_the_instance, NewArrow, NewDeviceArrow, new_buffer, pandas_series,
    ],
)  # fmt: skip


@never
@TEMPORARY
def test_memory_made_for_the_question_is_refused(call: Callable, made: Callable) -> None:
    with pytest.raises(ext.Error, match="could only be exported as a copy") as info:
        call(made())
    assert info.value.code == "needs_copy"


@TEMPORARY
def test_or_said_to_be_a_copy(take, made: Callable) -> None:
    assert take(made(), copy="from_producer")["copied"]
    assert isthmus.from_dlpack(made()).is_copied
    assert take(made(), copy="always", require_writable=True)["copied"]


class KeptLegacy(Device):
    """The capsule is new each time, and the memory the object's own; by default a copy would be made."""

    def __init__(self) -> None:
        self.memory, self.asked = np.arange(4.0), 0

    def __dlpack__(self, stream: object = None, max_version: object = None, copy: object = None) -> object:
        self.asked += 1
        return (self.memory if copy is False else self.memory.copy()).__dlpack__()


@never
def test_a_legacy_capsule_of_memory_that_stays_is_shared(call: Callable) -> None:
    x = KeptLegacy()
    found = call(x)
    assert (found["data"], found["copied"], found["read_only"]) == (x.memory.ctypes.data, False, False)
    assert x.asked == 2


def test_a_copy_is_made_once_if_one_is_wanted() -> None:
    x = KeptLegacy()
    assert isthmus.from_dlpack(x, copy=True).is_copied
    assert x.asked == 1


class VersionedCopy(Device):
    """Its protocol has a word for a copy, and it is believed."""

    asked = 0

    def __dlpack__(self, **_: object) -> object:
        self.asked += 1
        return np.arange(4.0).__dlpack__(max_version=(1, 0), copy=True)


def test_a_versioned_capsule_says_it_itself() -> None:
    x = VersionedCopy()
    assert isthmus.from_dlpack(x).is_copied
    assert x.asked == 1


class KeptView:
    """A view of the object's own array, made for each question."""

    def __init__(self) -> None:
        self.memory = np.arange(4.0)

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (4,), "typestr": "<f8", "version": 3, "data": self.memory[:]}


@never
def test_a_new_view_of_memory_that_stays_is_shared(call: Callable) -> None:
    x = KeptView()
    found = call(x)
    assert (found["data"], found["copied"]) == (x.memory.ctypes.data, False)


@never
def test_a_series_over_memory_of_its_own_is_shared(call: Callable) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    memory = np.arange(8.0)
    assert call(pandas.Series(memory, copy=False))["data"] == memory.ctypes.data


class Once(NewArray):
    """There is no second answer."""

    @property
    def __array_interface__(self) -> dict:
        if self.made:
            raise ValueError("it was given away")
        return super().__array_interface__


@never
def test_what_is_given_away_is_no_copy(call: Callable) -> None:
    assert not call(Once())["copied"]


@pytest.mark.parametrize("raised", interrupts.KINDS)
@never
def test_an_interrupt_of_the_second_question_passes(call: Callable, raised: type[BaseException]) -> None:
    class Interface(NewArray):
        @property
        def __array_interface__(self) -> dict:
            if self.made:
                raise raised
            return super().__array_interface__

    class Legacy(KeptLegacy):
        def __dlpack__(self, **_: object) -> object:
            if self.asked:
                raise raised
            return super().__dlpack__(copy=False)

    for producer in (Interface, Legacy):
        with pytest.raises(raised):
            call(producer())
