"""`__array_interface__` and `__cuda_array_interface__`, where a type has nothing better."""

from __future__ import annotations

import ctypes
import sys
import weakref

import pytest

import isthmus_test_ext as ext

TYPESTRS = {
    "|b1": "bool", "|i1": "int8", "<i2": "int16", "<i4": "int32", "<i8": "int64", "|u1": "uint8", "<u2": "uint16",
    "<u4": "uint32", "<u8": "uint64", "<f2": "float16", "<f4": "float32", "<f8": "float64", "<c8": "complex64",
    "<c16": "complex128", "<f16": "float128",
}  # fmt: skip


class Interface:
    def __init__(self, **fields: object) -> None:
        self.memory = (ctypes.c_uint8 * 256)(*range(256))
        self.address = (ctypes.addressof(self.memory) + 15) // 16 * 16
        self.fields = {"version": 3, "shape": (4,), "typestr": "<f4", "data": (self.address, False), **fields}

    @property
    def __array_interface__(self) -> dict:
        return self.fields


@pytest.mark.parametrize("typestr", TYPESTRS)
def test_typestrs(take, typestr: str) -> None:
    if sys.byteorder != "little":
        typestr = typestr.replace("<", ">")
    x = Interface(typestr=typestr)
    found = take(x)
    assert found["dtype"] == TYPESTRS[typestr.replace(">", "<")]
    assert found["data"] == x.address


@pytest.mark.parametrize(
    "typestr", ["<f:", "<i1/", "<f4 ", "<f", "<i33", "<i128", "f4", "xf4", "<z4", "<i0", "|b2", "<f5"]
)
def test_no_typestr(take, refused, typestr: str) -> None:
    assert repr(typestr) in str(refused("bad_dtype", BufferError, take, Interface(typestr=typestr)))


@pytest.mark.parametrize("typestr", [3, None, "\udc80"])
def test_a_typestr_that_is_no_text(take, refused, typestr: object) -> None:
    error = refused("bad_dtype", BufferError, take, Interface(typestr=typestr))
    assert "no valid 'typestr'; expected a string such as '<f4'" in str(error)


def test_layouts(take, elements) -> None:
    memory = bytes(range(256))
    x = Interface(typestr="|u1", shape=(2, 3), strides=(1, 10))
    found = take(x)
    assert (found["shape"], found["strides"]) == ((2, 3), (1, 10))
    offset = x.address - ctypes.addressof(x.memory)
    assert elements(x) == bytes(memory[offset + i + 10 * j] for i in range(2) for j in range(3))
    assert take(Interface(shape=()))["shape"] == ()
    assert take(Interface(shape=(0, 3)))["size"] == 0
    assert take(Interface(shape=(3,), strides=(0,)))["strides"] == (0,)
    assert take(Interface(shape=(2, 2)))["strides"] == (2, 1)


def test_a_buffer_for_no_elements(take) -> None:
    """Where nothing is read no element lies outside."""
    assert take(Interface(data=bytearray(4), shape=(0, 3), strides=(-12, 4)))["size"] == 0


def test_strides_between_elements(take, refused) -> None:
    """Whatever the size of an element; those that are never stepped along may be anything."""
    for typestr, itemsize in ("<f4", 4), ("<f12", 12):
        x = Interface(typestr=typestr, shape=(2,), strides=(itemsize + 1,))
        assert f"no multiple of the {itemsize}-byte element" in str(refused("needs_copy", BufferError, take, x))
        assert take(Interface(typestr=typestr, shape=(2,), strides=(2 * itemsize,)))["strides"] == (2,)
        assert take(Interface(typestr=typestr, shape=(0, 3), strides=(7, 5)))["shape"] == (0, 3)
        assert take(Interface(typestr=typestr, shape=(1, 2), strides=(7, itemsize)))["strides"][1] == 1


def test_read_only(take, refused) -> None:
    x = Interface()
    x.fields["data"] = (x.address, True)
    assert take(x)["read_only"]
    refused("read_only", BufferError, take, x, require_writable=True)


def test_references_are_exact() -> None:
    x = Interface()
    before = sys.getrefcount(x), sys.getrefcount(x.fields)
    for _ in range(50):
        ext.borrow(x)
        ext.own(x)
    number = ext.keep(x)
    assert sys.getrefcount(x) > before[0]
    ext.drop_on_thread(number, False)
    assert (sys.getrefcount(x), sys.getrefcount(x.fields)) == before


def test_the_object_lives_as_long_as_the_handle() -> None:
    x = Interface()
    gone = weakref.ref(x)
    wanted = ext.own_elements(x)
    number = ext.keep(x)
    del x
    assert gone() is not None
    assert ext.kept_elements(number) == wanted
    ext.drop(number)
    assert gone() is None


def test_method_comes_first(take) -> None:
    class Both(Interface):
        def __dlpack__(self, **_):
            raise ValueError("asked")

    with pytest.raises(ext.Error, match="asked"):
        take(Both())


def test_cuda_interface_comes_before_the_host_one(take) -> None:
    class Both(Interface):
        @property
        def __cuda_array_interface__(self) -> dict:
            return {**self.fields, "data": (0x7F0000000000, False)}

    assert take(Both())["device"].startswith("cuda")


def test_on_the_instance(take) -> None:
    class Plain:
        pass

    source = Interface()
    x = Plain()
    x.__array_interface__ = source.fields
    assert take(x)["data"] == source.address
