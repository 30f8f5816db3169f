"""Further sources that name memory as numbers can be read: text buffers of C, structs of fields, Arrow's lists and
streams, streams of the host.

Promised (docs/import.md, "Import paths"): any exporter of buffers with one number an element; Arrow's numbers and lists
of one size; `stream` is a matter of devices, so that host memory ignores it for every producer as it does for NumPy's.
"""

from __future__ import annotations

import array
import collections
import ctypes
import dataclasses
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")


@pytest.mark.parametrize("order", ["", "@", "=", "<", ">", "|"])
def test_the_format_c_is_a_byte(take, order: str) -> None:
    """PEP 3118 and the struct module: a byte of text. memoryview reads it as bytes of length 1."""
    x = ext.Exporter(format=order + "c", itemsize=1, shape=(3,), length=3)
    found = take(x)
    assert (found["dtype"], found["shape"]) == ("uint8", (3,))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ctypes.create_string_buffer(b"abc"),
        lambda: (ctypes.c_char * 4)(*b"abc"),
        lambda: memoryview(b"abc\0").cast("c"),
    ],
    ids=["create_string_buffer", "c_char array", "memoryview"],
)
def test_text_of_c(take, elements, make: Callable[[], object]) -> None:
    x = make()
    assert take(x)["dtype"] == "uint8"
    assert elements(x) == b"abc\0"


def test_the_format_c_of_another_size(refused) -> None:
    refused("bad_dtype", BufferError, ext.own, ext.Exporter(format="c", itemsize=4, shape=(3,), length=12))


def test_writable_text_of_c() -> None:
    x = ctypes.create_string_buffer(b"abc")
    np.asarray(isthmus.from_dlpack(x))[0] = ord("z")
    assert x.value == b"zbc"


@dataclasses.dataclass
class Struct:
    """What a runtime of another kind gives."""

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    device: str
    element_size: int


class Slots:
    __slots__ = ("device", "dtype", "element_size", "ptr", "shape", "strides")

    def __init__(self, **fields: object) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


Named = collections.namedtuple("Named", ["ptr", "shape", "strides", "dtype", "device", "element_size"])
STRUCTS = {"dataclass": Struct, "namespace": types.SimpleNamespace, "slots": Slots, "namedtuple": Named}


@pytest.mark.parametrize("kind", STRUCTS)
def test_from_blob_of_an_object_with_these_attributes(kind: str) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    fields = {
        "ptr": a.ctypes.data,
        "shape": (2, 3),
        "strides": (3, 1),
        "dtype": "float32",
        "device": "cpu",
        "element_size": 4,
    }
    t = isthmus.from_blob(STRUCTS[kind](**fields), owner=a)
    assert (t.data_ptr, t.shape, t.strides, t.dtype) == (a.ctypes.data, (2, 3), (3, 1), "float32")
    assert np.asarray(t).tolist() == a.tolist()


def test_optional_attributes_may_be_missing() -> None:
    a = np.arange(3, dtype=np.float32)
    t = isthmus.from_blob(types.SimpleNamespace(ptr=a.ctypes.data, shape=(3,), dtype="float32"), owner=a)
    assert (t.shape, t.device, t.read_only) == ((3,), "cpu", False)


def test_an_attribute_that_is_missing_is_named() -> None:
    with pytest.raises(isthmus.Error, match="shape"):
        isthmus.from_blob(types.SimpleNamespace(ptr=64, dtype="float32"), owner=object())


def test_an_attribute_that_is_wrong_is_named() -> None:
    with pytest.raises(isthmus.Error, match="'shape'"):
        isthmus.from_blob(types.SimpleNamespace(ptr=64, shape="three", dtype="float32"), owner=object())


def test_what_has_none_of_them_is_refused() -> None:
    for x in (object(), 3, "text", [1, 2]):
        with pytest.raises(isthmus.Error) as info:
            isthmus.from_blob(x, owner=object())
        assert isinstance(info.value, TypeError)


STREAMS = [None, -1, 0, 1, 2, 7, 2**40]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "isthmus.Tensor", "bytes", "__dlpack__"])
def test_host_memory_has_no_streams(take, name: str, stream: int | None) -> None:
    """A consumer on a device passes its stream with every argument, whatever memory it is."""

    class Producer:
        memory = np.zeros(3)

        def __dlpack__(self, **keywords: object) -> object:
            return self.memory.__dlpack__(max_version=keywords.get("max_version"), stream=keywords.get("stream"))

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = {
        "numpy": lambda: np.zeros(3),
        "torch": lambda: pytest.importorskip("torch").zeros(3),
        "jax": lambda: pytest.importorskip("jax").numpy.zeros(3),
        "isthmus.Tensor": lambda: ext.pages([3]),
        "bytes": lambda: b"123",
        "__dlpack__": Producer,
    }[name]()
    assert take(x, stream=stream)["data"] == take(x)["data"]


def test_bfloat16_of_jax_ignores_it_too(take) -> None:
    """No buffer format for the dtype, so that `__dlpack__` is called; but JAX's on the CPU refuses a stream."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(3, "bfloat16")
    assert take(x, stream=1)["dtype"] == "bfloat16"


def arrow() -> object:
    return pytest.importorskip("pyarrow")


def test_a_fixed_size_list_by_its_arrow_interface(take, elements) -> None:
    """Its `__dlpack__` raises, since DLPack's dtypes have no lists; its `__arrow_c_array__` says the same memory as two
    dimensions."""
    pa = arrow()
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 3)
    found = take(x)
    assert (found["dtype"], found["shape"], found["read_only"]) == ("float32", (2, 3), True)
    assert elements(x) == np.arange(6, dtype=np.float32).tobytes()


def test_a_fixed_shape_tensor_array(take) -> None:
    pa = arrow()
    x = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2, 2]),
        pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 4),
    )
    assert take(x)["size"] == 8


def test_a_producer_whose_other_protocol_reads_right(take) -> None:
    """The class of it: `__dlpack__` says that it cannot, the array interface can."""

    class Both:
        memory = np.arange(3.0)
        __array_interface__ = memory.__array_interface__

        def __dlpack__(self, **_: object) -> object:
            raise BufferError("no counterpart in DLPack")

    assert take(Both())["data"] == Both.memory.ctypes.data


class Refuses:
    """A video frame that is flipped, or has pixels of two bytes: DLPack cannot express it, and its buffer is the bytes
    as they lie, padding and all."""

    reason: Exception = BufferError("the line size is negative")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: object) -> object:
        raise self.reason


class Bytes(Refuses, bytearray):
    pass


class Numbers(Refuses, array.array):
    pass


@pytest.mark.parametrize("options", [{}, {"copy": "if_needed"}, {"copy": "always"}])
@pytest.mark.parametrize("kind", [BufferError, TypeError, NotImplementedError])
@pytest.mark.parametrize("frame", [Bytes(320), Numbers("H", [1, 2, 3])])
def test_what_the_producer_refused_is_not_taken_as_its_bytes(take, frame, kind, options) -> None:
    frame.reason = kind("the line size is negative")
    with pytest.raises(BufferError, match=r"__dlpack__\(\) raised .*the line size is negative") as info:
        take(frame, **options)
    assert isinstance(info.value.__cause__, kind)


def test_what_is_wrong_with_the_next_protocol_is_not_the_reason(take) -> None:
    """Of what it says about the memory alone there is a remedy."""

    class Producer(Refuses):
        def __init__(self, **more: object) -> None:
            self.__array_interface__ = {"shape": (2,), "typestr": "<f4", "version": 3, **more}

    with pytest.raises(BufferError, match=r"raised BufferError: the line size is negative$"):
        take(Producer())
    with pytest.raises(BufferError, match=r"the line size is negative; .*typestr"):
        take(Producer(data=bytearray(8), typestr=">f4"))
    with pytest.raises(BufferError, match=r"copy it first") as info:  # all that stands in the way
        take(Producer(data=bytearray(16), strides=(6,)))
    assert info.value.code == "needs_copy"


def test_arrow_stream_of_one_chunk(take, elements) -> None:
    pa = arrow()
    x = pa.chunked_array([pa.array([1.0, 2.0, 3.0])])
    found = take(x)
    assert (found["dtype"], found["shape"], found["read_only"]) == ("float64", (3,), True)
    assert found["data"] == x.chunk(0).buffers()[1].address
    assert elements(x) == np.array([1.0, 2.0, 3.0]).tobytes()


def test_arrow_stream_of_no_chunk(take) -> None:
    pa = arrow()
    assert take(pa.chunked_array([], type=pa.float64()))["shape"] == (0,)


def test_arrow_stream_of_several_chunks(take, refused) -> None:
    pa = arrow()
    error = refused("needs_copy", BufferError, take, pa.chunked_array([[1.0], [2.0]]))
    assert "2 chunks" in str(error)
    assert "combine_chunks()" in str(error)


def test_arrow_stream_with_nulls(take, refused) -> None:
    pa = arrow()
    assert "null" in str(refused("not_values", BufferError, take, pa.chunked_array([[1.0, None]])))


def test_arrow_stream_gives_everything_back() -> None:
    pa = arrow()
    x = pa.chunked_array([pa.array(np.arange(1 << 16))])
    before = pa.total_allocated_bytes()
    for call in (ext.borrow, ext.own, isthmus.from_dlpack):
        call(x)
    assert pa.total_allocated_bytes() == before


def test_polars_series(take, elements, refused) -> None:
    pl = pytest.importorskip("polars")
    x = pl.Series([1.0, 2.0, 3.0])
    assert take(x)["shape"] == (3,)
    assert elements(x) == np.array([1.0, 2.0, 3.0]).tobytes()
    several = pl.concat([x, x], rechunk=False)
    assert "rechunk()" in str(refused("needs_copy", BufferError, take, several))


def test_pandas_series_over_arrow(take) -> None:
    pd = pytest.importorskip("pandas")
    arrow()
    assert take(pd.Series([1.0, 2.0], dtype="float64[pyarrow]"))["shape"] == (2,)


def test_the_page_says_how_tvm_ffi_comes_in() -> None:
    """docs/frameworks.md names the protocol that `isthmus probe` finds:
    the exchange API only where the type has one."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    page = (Path(__file__).resolve().parents[3] / "docs" / "frameworks.md").read_text()
    rows = page[page.index("## In:") :].splitlines()
    row = next(line for line in rows if line.startswith("| TVM FFI |"))
    has_api = hasattr(type(tvm_ffi.from_dlpack(np.zeros(3))), "__dlpack_c_exchange_api__")
    assert ("exchange API" in row.split("|")[2]) == has_api
