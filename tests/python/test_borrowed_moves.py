"""A Borrowed says the same after every move, and while foreign code changes the object it came from.

Promised: sizes and strides are the borrow's own, whatever the protocol (docs/ownership.md: what an argument borrows is
good for the length of the call), and an exporter of a buffer gets back the Py_buffer that it filled in.
"""

from __future__ import annotations

import array
import ctypes
import io
import mmap
import pickle
from collections.abc import Callable

import modules
import numpy as np
import pytest
from casters import CASTERS

import isthmus_test_ext as ext

moves = modules.load("moves")

WAYS = [
    "constructed", "assigned", "assigned over another", "twice", "with its result", "by value()",
    "into a growing vector", "into an optional",
]  # fmt: skip


class Interface:
    def __init__(self, a: np.ndarray) -> None:
        self.kept, self.__array_interface__ = a, a.__array_interface__


class BufferInterface:
    def __init__(self, data: bytes) -> None:
        self.__array_interface__ = {"shape": (len(data),), "typestr": "|u1", "data": data, "version": 3}


class Method:
    def __init__(self, a: np.ndarray, version: tuple[int, int] | None) -> None:
        self.a, self.version = a, version

    def __dlpack__(self, **_) -> object:
        return self.a.__dlpack__(max_version=self.version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def memory_map() -> mmap.mmap:
    found = mmap.mmap(-1, 5)
    found[:] = b"12345"
    return found


def jax_array() -> object:
    return pytest.importorskip("jax").numpy.arange(5)


def torch_tensor() -> object:
    return pytest.importorskip("torch").arange(6.0).reshape(2, 3).T


def arrow_array() -> object:
    return pytest.importorskip("pyarrow").array([1.0, 2.0, 3.0])


GRID = np.arange(12, dtype=np.float32).reshape(3, 4)
PRODUCERS: dict[str, Callable[[], object]] = {
    "bytes": lambda: b"12345",
    "bytearray": lambda: bytearray(b"12345"),
    "mmap": memory_map,
    "memoryview": lambda: memoryview(b"12345"),
    "memoryview in two dimensions": lambda: memoryview(bytearray(12)).cast("B", (3, 4)),
    "array.array": lambda: array.array("d", [1, 2, 3]),
    "ctypes": lambda: (ctypes.c_int * 3)(1, 2, 3),
    "BytesIO": lambda: io.BytesIO(b"12345").getbuffer(),
    "PickleBuffer": lambda: pickle.PickleBuffer(bytearray(b"12345")),
    "PyBuffer_FillInfo": moves.Recorder,
    "exporter without strides": lambda: ext.Exporter(format="f", itemsize=4, shape=(3,), length=12),
    "exporter without shape": lambda: ext.Exporter(format="f", itemsize=4, length=12),
    "numpy": lambda: GRID,
    "numpy, strided": lambda: GRID[:, ::-2],
    "numpy scalar": lambda: np.float64(1.5),
    "isthmus.Tensor": lambda: ext.tensor_of(GRID.T),
    "array interface": lambda: Interface(GRID.T),
    "array interface of a buffer": lambda: BufferInterface(b"12345"),
    "__dlpack__": lambda: Method(GRID.T, (1, 0)),
    "__dlpack__, legacy": lambda: Method(GRID.T, None),
    "torch": torch_tensor,
    "jax": jax_array,
    "pyarrow": arrow_array,
}
# A capsule is taken once, so that nothing can be compared with it.
COMPARED = ("shape", "strides", "dtype", "data", "size", "nbytes", "read_only")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PRODUCERS)
def test_a_moved_borrow_says_the_same(name: str, way: str) -> None:
    """Whatever it was moved from may be overwritten: the move leaves nothing behind that is still read."""
    x = PRODUCERS[name]()
    wanted, wanted_elements = ext.borrow(x), ext.borrow_elements(x)
    told, elements = moves.moved(x, way)
    for field in COMPARED:
        # The array interface and Arrow may hand out other memory each time; the others show the one they have.
        assert told[field] == wanted[field], field
    assert elements == wanted_elements


@pytest.mark.parametrize(
    "make", [lambda: b"12345", lambda: bytearray(b"12345"), memory_map], ids=["bytes", "bytearray", "mmap"]
)
def test_a_view_of_a_moved_borrow(make: Callable[[], object]) -> None:
    assert moves.moved_view(make()) == (5,)


@pytest.mark.parametrize("kind", ["borrowed", "view", "optional_borrowed", "optional_view"])
@pytest.mark.parametrize(
    "make", [lambda: b"12345", lambda: bytearray(b"12345"), memory_map], ids=["bytes", "bytearray", "mmap"]
)
def test_an_argument_of_bytes(kind: str, make: Callable[[], object]) -> None:
    assert getattr(moves, kind + "_argument")(make()) == (5,)


@pytest.mark.parametrize("module", CASTERS)
def test_an_argument_of_bytes_through_a_caster(module: str) -> None:
    bound = pytest.importorskip(module)
    for x in (b"12345", bytearray(b"12345")):
        assert bound.describe(x) == "uint8(5,)"


@pytest.mark.parametrize(
    "call", [ext.borrow, ext.own, ext.tensor_of, lambda x: moves.moved(x, "twice"), moves.view_argument]
)
def test_an_exporter_gets_back_what_it_filled_in(call: Callable) -> None:
    """PyBuffer_FillInfo points the shape at a field of the Py_buffer: bf_releasebuffer (and `__release_buffer__`, which
    is shown a memoryview of it) must find it there, not where the buffer once was."""
    x = moves.Recorder()
    call(x)
    assert x.seen == [32]


def test_a_kept_tensor_gives_the_buffer_back_whole() -> None:
    x = moves.Recorder()
    ext.drop(ext.keep(x))
    assert x.seen == [32]


def test_release_buffer_of_python(child) -> None:
    """PEP 688, CPython 3.12: `__release_buffer__` gets a memoryview of the shape that `__buffer__` gave."""
    import sys

    if sys.version_info < (3, 12):
        pytest.skip("classes have no buffer protocol before CPython 3.12")
    child("""
        import modules
        import isthmus_test_ext as ext
        moves = modules.load("moves")

        class Bytes(bytearray):
            seen = []
            def __release_buffer__(self, view):
                self.seen.append((view.shape, view.nbytes))
                super().__release_buffer__(view)

        x = Bytes(b"12345")
        for call in (ext.borrow, ext.own, moves.view_argument, lambda x: moves.moved(x, "twice")):
            call(x)
            assert Bytes.seen.pop() == ((5,), 5), call
    """)


CHANGES = {
    "numpy, another rank": ("np.zeros((2, 3), 'f4')", "setattr(x, 'shape', (6, 1, 1))"),
    "numpy, another shape": ("np.zeros((2, 3), 'f4')", "setattr(x, 'shape', (3, 2))"),
    "numpy, strided": ("np.zeros((2, 6), 'f4')[:, ::2]", "setattr(x, 'shape', (2, 3, 1))"),
    "torch, transposed": ("torch.zeros(2, 3)", "x.t_()"),
    "torch, another rank": ("torch.zeros(2, 3)", "[x.unsqueeze_(0) for _ in range(6)]"),
    "torch, other strides": ("torch.zeros(2, 3)", "x.as_strided_((1, 2), (1, 1))"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_shape_is_the_borrows_own(child, name: str) -> None:
    """Python code that runs during a call (a callback, another thread) may give the object another shape; the borrow
    keeps the one it was made with, in memory of its own: what the object had is freed and used again."""
    make, change = CHANGES[name]
    if "torch" in make:
        pytest.importorskip("torch")
    child(f"""
        import numpy as np
        if "torch" in {make!r}:
            import torch
        import modules
        import isthmus_test_ext as ext
        moves = modules.load("moves")
        x, used = {make}, []
        before, elements = ext.borrow(x), ext.borrow_elements(x)

        def f():
            {change}
            used.extend(np.empty((7, 9)) for _ in range(500))
            used.extend(np.empty((7, 9, 5)) for _ in range(500))

        told, still = moves.after(x, f)
        assert (told["shape"], told["strides"]) == (before["shape"], before["strides"]), told
        assert still == elements
    """)
