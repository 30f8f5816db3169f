"""A legacy capsule cannot say that the memory is read-only; another protocol of the same object may.

Promised (docs/import.md, "Read-only is honest"): memory that its producer says is read-only by any of its protocols is
never handed out as writable. A producer that speaks nothing but the legacy form is taken at its word,
which is "writable".
"""

from __future__ import annotations

import ctypes

import capsules
import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")


KEPT: list[object] = []


def legacy_capsule(data: int, count: int) -> object:
    """A legacy capsule of uint8[count] at an address, whatever may be written there. Nothing is freed."""
    shape = (ctypes.c_int64 * 1)(count)
    tensor = capsules.DLTensor(data, capsules.Device(1, 0), 1, capsules.DataType(1, 8, 1), shape, None, 0)
    managed = capsules.Managed(tensor, None, None)
    KEPT.append((shape, managed))
    return capsules.wrap(ctypes.addressof(managed), versioned=False)


def address(buffer: object) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


class Legacy:
    def __dlpack__(self, *, stream: object = None) -> object:
        return legacy_capsule(address(self), len(self))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class ReadOnlyBuffer(Legacy, bytes):
    pass


class WritableBuffer(Legacy, bytearray):
    pass


class WithInterface:
    """No buffer, but an array interface that says whether the memory may be written."""

    def __init__(self, read_only: bool) -> None:
        self.memory = np.arange(8, dtype=np.uint8)
        self.memory.flags.writeable = not read_only
        self.__array_interface__ = self.memory.__array_interface__

    def __dlpack__(self, *, stream: object = None) -> object:
        return legacy_capsule(self.memory.ctypes.data, 8)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


READ_ONLY = {"buffer": lambda: ReadOnlyBuffer(b"abcdefgh"), "array interface": lambda: WithInterface(True)}
WRITABLE = {"buffer": lambda: WritableBuffer(b"abcdefgh"), "array interface": lambda: WithInterface(False)}


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_by_another_protocol(take, refused, name: str) -> None:
    x = READ_ONLY[name]()
    assert take(x)["read_only"]
    refused("read_only", BufferError, take, x, require_writable=True)


@pytest.mark.parametrize("name", READ_ONLY)
def test_bytes_never_change(name: str) -> None:
    x = READ_ONLY[name]()
    t = isthmus.from_dlpack(x)
    assert t.read_only
    array = t.to("numpy")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 88
    with pytest.raises(isthmus.Error) as info:
        t.to("torch")
    assert info.value.code == "read_only"


@pytest.mark.parametrize("name", WRITABLE)
def test_writable_by_another_protocol(take, name: str) -> None:
    assert not take(WRITABLE[name](), require_writable=True)["read_only"]


def test_legacy_alone_is_writable(take) -> None:
    class Alone:
        memory = np.arange(8, dtype=np.uint8)

        def __dlpack__(self, *, stream: object = None) -> object:
            return legacy_capsule(self.memory.ctypes.data, 8)

    assert not take(Alone())["read_only"]


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_device_array__"])
def test_an_array_of_arrow_is_immutable(take, refused, method: str) -> None:
    class Array:
        memory = np.arange(8, dtype=np.uint8)

        def __dlpack__(self, *, stream: object = None) -> object:
            return legacy_capsule(self.memory.ctypes.data, 8)

    setattr(Array, method, lambda self, requested_schema=None: None)
    assert take(Array())["read_only"]
    refused("read_only", BufferError, take, Array(), require_writable=True)


def test_nanoarrow() -> None:
    nanoarrow = pytest.importorskip("nanoarrow")
    original = b"abcdefgh"
    t = isthmus.from_dlpack(nanoarrow.c_buffer(original).view())
    assert t.read_only
    with pytest.raises(ValueError, match="read-only"):
        t.to("numpy")[0] = 88
    assert original == bytes([97, 98, 99, 100, 101, 102, 103, 104])
