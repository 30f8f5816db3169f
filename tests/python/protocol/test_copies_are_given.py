"""Who allows a copy gets one, whatever the reason why the memory cannot be shared, and may write to it.

Promised: `copy=True`, Copy::always and Copy::if_needed of an import (docs/import.md), `allow_copy` of an export
(docs/export.md).
"""

from __future__ import annotations

import array
import importlib
from collections.abc import Callable

import capsules
import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def misaligned() -> np.ndarray:
    raw = np.zeros(VALUES.nbytes + 1, np.uint8)
    found = raw[1:].view(np.float32).reshape(VALUES.shape)
    found[...] = VALUES
    return found


def field() -> np.ndarray:
    """A field of a packed record: 7 bytes from one element to the next."""
    records = np.zeros(VALUES.shape, [("tag", "u1"), ("x", "f4"), ("y", "u2")])
    records["x"] = VALUES
    return records["x"]


def frozen(x: np.ndarray) -> np.ndarray:
    x.setflags(write=False)
    return x


def warns() -> np.ndarray:
    return np.broadcast_arrays(VALUES.copy(), np.zeros((1, 2, 3)))[0][0]


class Interface:
    """By its array interface alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


class Buffer:
    def __new__(cls, x: np.ndarray) -> object:
        return memoryview(x)


class CopiesReadOnly:
    """A producer that makes a copy for each question, says so, and says that it must not be written."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, max_version: object = None, copy: object = None, **_: object) -> object:
        if copy is False:
            raise BufferError("only as a copy")
        return capsules.add_flags(self.x.__dlpack__(max_version=(1, 0), copy=True), capsules.READ_ONLY)


def library(name: str) -> object:
    return pytest.importorskip(name)


def torch_misaligned() -> object:
    torch = library("torch")
    memory = bytearray(VALUES.nbytes + 1)
    memory[1:] = VALUES.tobytes()
    return torch.frombuffer(memory, dtype=torch.float32, offset=1).reshape(2, 3)


def arrow_misaligned() -> object:
    pa = library("pyarrow")
    memory = pa.py_buffer(b"\0" + VALUES.tobytes())
    flat = pa.Array.from_buffers(pa.float32(), 6, [None, memory.slice(1)])
    return pa.FixedSizeListArray.from_arrays(flat, 3)


NOT_SHARED: dict[str, Callable[[], object]] = {
    "misaligned": misaligned,
    "misaligned, its buffer": lambda: Buffer(misaligned()),
    "misaligned, its interface": lambda: Interface(misaligned()),
    "misaligned, torch": torch_misaligned,
    "misaligned, arrow": arrow_misaligned,
    "a field": field,
    "a field's buffer": lambda: Buffer(field()),
    "a field's interface": lambda: Interface(field()),
    "a field, turned": lambda: field()[::-1, ::-1][::-1, ::-1],
}
READ_ONLY: dict[str, Callable[[], object]] = {
    "numpy": lambda: frozen(VALUES.copy()),
    "numpy, warns of writes": warns,
    "numpy, overlapping": lambda: np.lib.stride_tricks.as_strided(VALUES.copy(), (2, 3), (12, 4), writeable=False),
    "a buffer": lambda: Buffer(frozen(VALUES.copy())),
    "an interface": lambda: Interface(frozen(VALUES.copy())),
    "isthmus": lambda: isthmus.from_dlpack(frozen(VALUES.copy())),
    "jax": lambda: library("jax.numpy").asarray(VALUES),
    "tensorflow": lambda: library("tensorflow").constant(VALUES),
    "pyarrow": lambda: library("pyarrow").Tensor.from_numpy(frozen(VALUES.copy())),
    "a misaligned one": lambda: frozen(misaligned()),
    "one that copies": lambda: CopiesReadOnly(VALUES),
}


@pytest.mark.parametrize("copy", ["always", "if_needed"])
@pytest.mark.parametrize("case", NOT_SHARED)
def test_memory_that_cannot_be_shared(take, case: str, copy: str) -> None:
    found = take(NOT_SHARED[case](), copy=copy)
    assert (found["shape"], found["strides"], found["dtype"]) == ((2, 3), (3, 1), "float32")
    assert (found["copied"], found["read_only"]) == (True, False)
    assert ext.own_elements(NOT_SHARED[case](), copy=copy) == VALUES.tobytes()
    assert take(NOT_SHARED[case](), copy=copy, require_writable=True)["copied"]


@pytest.mark.parametrize("case", NOT_SHARED)
def test_which_is_refused_without(take, refused, case: str) -> None:
    refused("needs_copy", BufferError, take, NOT_SHARED[case]())
    refused("needs_copy", BufferError, take, NOT_SHARED[case](), copy="from_producer")


@pytest.mark.parametrize("case", READ_ONLY)
def test_a_copy_of_read_only_memory_is_writable(take, case: str) -> None:
    for options in ({}, {"require_writable": True}):
        found = take(READ_ONLY[case](), copy="always", **options)
        assert (found["copied"], found["read_only"]) == (True, False)
    found = take(READ_ONLY[case](), copy="if_needed", require_writable=True)
    assert (found["copied"], found["read_only"]) == (True, False)
    assert ext.borrow_elements(READ_ONLY[case](), copy="always") == VALUES.tobytes()
    t = isthmus.from_dlpack(READ_ONLY[case](), copy=True)
    assert (t.is_copied, t.read_only) == (True, False)
    np.asarray(t)[0, 0] = 7


def test_a_copy_leaves_the_source_alone() -> None:
    x = frozen(VALUES.copy())
    np.asarray(isthmus.from_dlpack(x, copy=True))[...] = 9
    assert (x == VALUES).all()


def test_what_is_shared_needs_none(take) -> None:
    x = VALUES.copy()
    assert take(x, copy="if_needed", require_writable=True)["data"] == x.ctypes.data
    assert take(frozen(x), copy="if_needed")["data"] == x.ctypes.data
    assert take(array.array("f", VALUES.ravel()), copy="if_needed", require_writable=True)["copied"] is False


def test_an_error_that_no_copy_cures_stays(take, refused) -> None:
    refused("not_values", BufferError, take, VALUES.astype(">f4"), copy="if_needed")
    refused("bad_dtype", BufferError, take, np.array([object()]), copy="always")


# Out.


def seen(x: object) -> np.ndarray:
    """The elements of an array of any framework."""
    if type(x).__module__.partition(".")[0] == "tvm_ffi":
        return np.from_dlpack(x)
    if hasattr(x, "numpy"):
        return np.asarray(x.numpy())
    if hasattr(x, "to_numpy"):
        return np.asarray(x.to_numpy())
    return np.asarray(x)


SOURCES: dict[str, Callable[[], object]] = {
    "read-only": lambda: isthmus.from_dlpack(frozen(VALUES.copy())),
    "backwards": lambda: isthmus.from_dlpack(VALUES[::-1, ::-1].copy()[::-1, ::-1]),
    "apart": lambda: isthmus.from_dlpack(np.repeat(np.repeat(VALUES, 2, 0), 2, 1)[::2, ::2]),
    "read-only and backwards": lambda: isthmus.from_dlpack(frozen(VALUES[::-1].copy()[::-1])),
    "repeated": lambda: isthmus.from_dlpack(np.broadcast_to(VALUES[:1], (2, 3))),
    "aligned to 4": lambda: isthmus.from_dlpack(np.concatenate([[0], VALUES.ravel()]).astype("f4")[1:].reshape(2, 3)),
}
MODULES = {"torch": "torch", "jax": "jax", "tensorflow": "tensorflow", "paddle": "paddle", "mlx": "mlx.core",
           "pyarrow": "pyarrow", "warp": "warp", "onnxruntime": "onnxruntime", "tvm_ffi": "tvm_ffi",
           "numpy": "numpy"}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("framework", MODULES)
def test_allow_copy_cures_every_layout(framework: str, source: str) -> None:
    try:
        importlib.import_module(MODULES[framework])
    except ImportError:
        pytest.skip(f"no {framework}")
    t = SOURCES[source]()
    expected = np.asarray(t).copy()
    made = t.to(framework, allow_copy=True)
    assert (seen(made) == expected).all()
    if framework == "torch" and (source.startswith("read-only") or "backwards" in source or source == "repeated"):
        made += 1
        assert (np.asarray(t) == expected).all()


@pytest.mark.parametrize("source", SOURCES)
def test_the_tensor_s_own_ways_out(source: str) -> None:
    t = SOURCES[source]()
    expected = np.asarray(t).copy()
    for copied in (
        np.asarray(isthmus.from_dlpack(t.__dlpack__(max_version=(1, 3), copy=True))),
        np.from_dlpack(isthmus.from_dlpack(t.__dlpack__(copy=True))),
        np.array(t, copy=True),
        t.__array__(copy=True),
        np.asarray(isthmus.from_dlpack(t, copy=True)),
    ):
        assert copied.flags.writeable
        assert (copied == expected).all()
        copied += 1
    assert (np.asarray(t) == expected).all()
