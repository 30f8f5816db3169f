"""An openvino.Tensor comes in by the array that it shows, of the element type that it names. OpenVINO itself is tested
in tests/frameworks; here classes in its place stand for what this machine need not have."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import isthmus_test_ext as ext

# The dtype of the array that OpenVINO shows, where that is another, follows the tensor's.
ELEMENTS = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16 float16", "f64": "float64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "boolean": "bool",
    "f8e4m3": "float8_e4m3fn uint8", "f8e5m2": "float8_e5m2 uint8", "f8e8m0": "float8_e8m0fnu uint8",
}  # fmt: skip


class Element:
    def __init__(self, name: object) -> None:
        self.name = name

    def get_type_name(self) -> object:
        if isinstance(self.name, BaseException):
            raise self.name
        return self.name


class Tensor:
    """As OpenVINO calls its own."""

    __module__ = "openvino._pyopenvino"

    def __init__(self, element: object, shown: object) -> None:
        self.element_type = Element(element)
        self.shown = shown

    @property
    def data(self) -> object:
        if isinstance(self.shown, BaseException):
            raise self.shown
        return self.shown


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_type(take: Callable, element: str) -> None:
    dtype, *shown = ELEMENTS[element].split()
    array = np.zeros((2, 6), shown[0] if shown else dtype)[:, ::2]
    found = take(Tensor(element, array))
    assert (found["dtype"], found["shape"], found["strides"]) == (dtype, (2, 3), (6, 2))
    assert (found["data"], found["read_only"]) == (array.ctypes.data, False)


def test_a_read_only_array_is_read_only(take: Callable, refused: Callable) -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    assert take(Tensor("f32", array))["read_only"]
    refused("read_only", BufferError, take, Tensor("f32", array), require_writable=True)


def test_the_way_back_leads_to_the_tensor_itself() -> None:
    x = Tensor("f32", np.zeros(3, np.float32))
    assert ext.tensor_of(x).owner is x


def test_the_memory_lives_as_long_as_it_is_held() -> None:
    array = np.arange(4, dtype=np.float32)
    gone = weakref.ref(array)
    kept = ext.keep(Tensor("f32", array))
    wanted = array.tobytes()
    del array
    gc.collect()
    assert ext.kept_elements(kept) == wanted
    ext.drop_on_thread(kept, False)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("element", ["string", "u4", "i4", "u1", "nf4", "f4e2m1", "dynamic", "u2"])
def test_what_has_no_counterpart_is_refused_before_its_data(take: Callable, refused: Callable, element: str) -> None:
    x = Tensor(element, AssertionError("asked for its data"))
    text = str(refused("bad_dtype", BufferError, take, x))
    assert f"element type {element} of this openvino._pyopenvino.Tensor has no counterpart in DLPack" in text


@pytest.mark.parametrize(("element", "array"), [("f32", np.zeros(3)), ("bf16", np.zeros(3, np.uint8))], ids=str)
def test_an_array_that_contradicts_the_element_type(
    take: Callable, refused: Callable, element: str, array: np.ndarray
) -> None:
    before = sys.getrefcount(array)
    text = str(refused("bad_dtype", BufferError, take, Tensor(element, array)))
    assert f"has elements of {array.itemsize} bytes; expected " in text
    gc.collect()
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("raised", [RuntimeError("remote"), AttributeError("no such"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("where", ["data", "element_type"])
def test_what_it_raises_is_the_cause(take: Callable, raised: BaseException, where: str) -> None:
    x = Tensor("f32", raised) if where == "data" else Tensor(raised, np.zeros(3))
    with pytest.raises(ext.Error if isinstance(raised, Exception) else KeyboardInterrupt) as info:
        take(x)
    if isinstance(raised, Exception):
        assert (info.value.code, info.value.__cause__) == ("producer_failed", raised)
        assert f"the {where.replace('_', ' ')} of this " in str(info.value)


@pytest.mark.parametrize("name", [None, 3, b"f32", "\ud800"], ids=repr)
def test_an_element_type_that_cannot_be_told(take: Callable, refused: Callable, name: object) -> None:
    assert "the element type of this " in str(refused("producer_failed", BufferError, take, Tensor(name, np.zeros(3))))


@pytest.mark.parametrize("data", [None, 3, "text"], ids=repr)
def test_data_that_is_no_array(take: Callable, refused: Callable, data: object) -> None:
    assert "the data of this " in str(refused("producer_failed", BufferError, take, Tensor("f32", data)))
