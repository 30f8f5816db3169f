"""Exporters of the buffer protocol: those of the standard library, and the formats of PEP 3118."""

from __future__ import annotations

import array
import ctypes
import mmap
import sys

import pytest

import isthmus_test_ext as ext

FORMATS = {
    "?": ("bool", 1), "b": ("int8", 1), "B": ("uint8", 1), "h": ("int16", 2), "H": ("uint16", 2), "i": ("int32", 4),
    "I": ("uint32", 4), "l": ("int64", 8), "L": ("uint64", 8), "q": ("int64", 8), "Q": ("uint64", 8), "n": ("int64", 8),
    "N": ("uint64", 8), "e": ("float16", 2), "f": ("float32", 4), "d": ("float64", 8), "Zf": ("complex64", 8),
    "Zd": ("complex128", 16),
}  # fmt: skip


@pytest.mark.parametrize("order", ["", "@", "=", "<", "^"])
@pytest.mark.parametrize("letter", FORMATS)
def test_formats(take, letter: str, order: str) -> None:
    name, itemsize = FORMATS[letter]
    x = ext.Exporter(format=order + letter, itemsize=itemsize, shape=(2,), length=2 * itemsize)
    if sys.byteorder != "little" and order == "<" and itemsize > 1:
        pytest.skip("another byte order here")
    assert take(x)["dtype"] == name


@pytest.mark.parametrize("letter", ["l", "L"])
def test_standard_width(take, letter: str) -> None:
    x = ext.Exporter(format="<" + letter, itemsize=4, shape=(2,), length=8)
    assert take(x)["dtype"] == ("int32" if letter == "l" else "uint32")


@pytest.mark.parametrize("letter", [key for key in FORMATS if FORMATS[key][1] > 1])
def test_other_byte_order(take, refused, letter: str) -> None:
    foreign = ">" if sys.byteorder == "little" else "<"
    itemsize = FORMATS[letter][1]
    x = ext.Exporter(format=foreign + letter, itemsize=itemsize, shape=(2,), length=2 * itemsize)
    assert "byte order" in str(refused("not_values", BufferError, take, x))


def test_bytes(take, elements, refused) -> None:
    x = b"the bytes of a string"
    found = take(x)
    assert (found["dtype"], found["shape"], found["read_only"]) == ("uint8", (len(x),), True)
    assert elements(x) == x
    refused("read_only", BufferError, take, x, require_writable=True)


def test_bytearray(take, elements) -> None:
    x = bytearray(b"12345678")
    found = take(x, require_writable=True)
    assert not found["read_only"]
    assert found["data"] == ctypes.addressof(ctypes.c_char.from_buffer(x))
    assert elements(x) == bytes(x)


def test_empty(take) -> None:
    for x in (b"", bytearray(), array.array("f"), memoryview(b"")):
        assert take(x)["shape"] == (0,)


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd")
def test_array(take, elements, letter: str) -> None:
    x = array.array(letter, [1, 2, 3])
    assert take(x)["data"] == x.buffer_info()[0]
    assert elements(x) == x.tobytes()


def test_array_of_characters(take, refused) -> None:
    refused("bad_dtype", BufferError, take, array.array("u", "text"))


def test_memoryview(take, elements) -> None:
    data = bytearray(range(48))
    view = memoryview(data)
    assert elements(view[::2]) == bytes(range(0, 48, 2))
    assert elements(view[::-1]) == bytes(range(47, -1, -1))
    grid = view.cast("i", (3, 4))
    found = take(grid)
    assert (found["shape"], found["strides"], found["dtype"]) == ((3, 4), (4, 1), "int32")
    assert take(view.toreadonly())["read_only"]
    assert take(view.cast("f", ()) if len(view) == 4 else view[:4].cast("f", ()))["shape"] == ()


def test_ctypes(take, elements) -> None:
    x = (ctypes.c_double * 3 * 2)((1, 2, 3), (4, 5, 6))
    found = take(x)
    assert (found["data"], found["shape"], found["dtype"]) == (ctypes.addressof(x), (2, 3), "float64")
    assert elements(x) == bytes(x)
    assert take(ctypes.c_int32(7))["shape"] == ()
    assert take((ctypes.c_bool * 2)())["dtype"] == "bool"


def test_ctypes_structures(take, refused) -> None:
    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]

    refused("bad_dtype", BufferError, take, (Point * 3)())
    refused("bad_dtype", BufferError, take, (ctypes.c_void_p * 3)())
    refused("not_values", BufferError, take, (ctypes.c_float.__ctype_be__ * 3)())


def test_mmap(take) -> None:
    with mmap.mmap(-1, 4096) as x:
        assert take(x)["shape"] == (4096,)
        number = ext.keep(x)
        with pytest.raises(BufferError):
            x.close()
        ext.drop_without_gil(number)


def test_references_are_exact() -> None:
    for x in (bytes(range(100)), bytearray(100), array.array("f", [1, 2]), memoryview(bytearray(8))):
        before = sys.getrefcount(x)
        for _ in range(50):
            ext.borrow(x)
            ext.own(x)
        assert sys.getrefcount(x) == before
        number = ext.keep(x)
        assert sys.getrefcount(x) > before
        ext.drop_on_thread(number, False)
        assert sys.getrefcount(x) == before


def test_the_exporter_is_locked_for_as_long_as_it_is_held() -> None:
    x = bytearray(8)
    number = ext.keep(x)
    other = ext.share(number)
    for held in (number, other):
        with pytest.raises(BufferError):
            x.clear()
        ext.drop(held)
    x.clear()


def test_moved_guard() -> None:
    x = memoryview(bytearray(range(48)))[::3]
    assert ext.borrow_moved(x)["strides"] == (3,)
    x.release()


def test_copy(take) -> None:
    x = b"12345678"
    found = take(x, copy="always", require_writable=True)
    assert found["copied"]
    assert not found["read_only"]
    assert ext.own_elements(x, copy="always") == x
    assert take(x, copy="if_needed")["read_only"]
