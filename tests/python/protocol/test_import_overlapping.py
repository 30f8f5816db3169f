"""Arrays whose elements share memory may be read and not written: one write would show in several elements.

Promised (law 3): what cannot be expressed is refused. `require_writable`, a writable View, and a writable argument
refuse with bad_layout and a word about the overlap; torch refuses the same in-place operation ("more than one element
of the written-to tensor refers to a single memory location"), NumPy warns. Reading stays allowed, and arrays that only
look interleaved stay writable.
"""

from __future__ import annotations

from collections.abc import Callable

import modules
import numpy as np
import pytest
from casters import CASTERS
from numpy.lib.stride_tricks import as_strided

import isthmus_test_ext as ext

calls = modules.load("calls")


def torch_zeros(*shape: int) -> object:
    return pytest.importorskip("torch").zeros(*shape)


def writable_broadcast() -> np.ndarray:
    a = np.broadcast_to(np.zeros(1, np.float32), (4,))
    a.flags.writeable = True
    return a


def ones(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


OVERLAPPING: dict[str, Callable[[], object]] = {
    "numpy broadcast_to made writable": writable_broadcast,
    "numpy stride 0": lambda: as_strided(ones(1), (4,), (0,)),
    "numpy stride 0 inside": lambda: as_strided(ones(6), (2, 4, 3), (12, 0, 4)),
    "numpy windows": lambda: as_strided(ones(6), (4, 3), (4, 4)),
    "numpy windows that touch": lambda: as_strided(ones(8), (3, 4), (8, 4)),
    "numpy reversed windows": lambda: as_strided(ones(6)[3:], (4, 3), (-4, 4)),
    "numpy three dimensions": lambda: as_strided(ones(32), (2, 2, 2), (12, 8, 4)),
    "isthmus.Tensor of C++": lambda: ext.pages([4], strides=[0]),
    "isthmus.Tensor of NumPy": lambda: ext.tensor_of(as_strided(ones(1), (4,), (0,))),
    "torch expand": lambda: torch_zeros(1).expand(4),
    "torch expand inside": lambda: torch_zeros(2, 1, 3).expand(2, 4, 3),
    "torch broadcast_to": lambda: torch_zeros(1).broadcast_to(4),
    "torch unfold": lambda: torch_zeros(6).unfold(0, 3, 1),
    "torch as_strided": lambda: torch_zeros(6).as_strided((4, 3), (1, 1)),
}
APART: dict[str, Callable[[], object]] = {
    "one element with stride 0": lambda: as_strided(ones(3), (1, 3), (0, 4)),
    "empty with stride 0": lambda: as_strided(ones(3), (0, 3), (0, 4)),
    "transposed": lambda: ones(6).reshape(2, 3).T,
    "every other, reversed": lambda: ones(8)[::-2],
    # Elements 0 2 4 and 3 5 7 of eight: the rows reach past one another without meeting.
    "interleaved": lambda: as_strided(ones(8), (2, 3), (12, 8)),
    "torch expand of one": lambda: torch_zeros(1, 3).expand(1, 3),
    "torch unfold apart": lambda: torch_zeros(6).unfold(0, 3, 3),
    "torch diagonal": lambda: torch_zeros(3, 3).diagonal(),
}
overlapping = pytest.mark.parametrize("name", OVERLAPPING)
apart = pytest.mark.parametrize("name", APART)


@overlapping
def test_not_taken_for_writing(take, refused, name: str) -> None:
    assert "overlap" in str(refused("bad_layout", BufferError, take, OVERLAPPING[name](), require_writable=True))


@overlapping
@pytest.mark.parametrize("announce", [True, False], ids=["announced", "unannounced"])
def test_no_writable_view(name: str, announce: bool) -> None:
    x = OVERLAPPING[name]()
    before = ext.borrow_elements(x)
    with pytest.raises(ext.Error) as info:
        calls.add(x, 1.0, announce=announce)
    assert info.value.code == "bad_layout"
    assert "overlap" in str(info.value)
    assert ext.borrow_elements(x) == before


@pytest.mark.parametrize("name", [name for name in OVERLAPPING if name.endswith(("expand", "stride 0"))])
def test_no_writable_argument(name: str) -> None:
    x = OVERLAPPING[name]()
    with pytest.raises(ext.Error, match=r"argument 'out'.*overlap"):
        calls.copy_into(x, np.arange(4, dtype=np.float32))
    with pytest.raises(ext.Error, match=r"argument 'out'.*overlap"):
        calls.scale(x, 2.0)


@overlapping
def test_it_may_be_read(take, elements, name: str) -> None:
    x = OVERLAPPING[name]()
    assert take(x)["data"] == ext.borrow(x)["data"]
    assert set(elements(x)) == {0}


@apart
def test_what_only_looks_so_is_written(take, name: str) -> None:
    x = APART[name]()
    assert not take(x, require_writable=True)["read_only"]
    calls.add(x, 1.0)
    assert np.frombuffer(ext.borrow_elements(x), np.float32).tolist() == [1.0] * ext.borrow(x)["size"]


@pytest.mark.parametrize("module", CASTERS)
def test_no_writable_argument_through_a_caster(module: str) -> None:
    bound = pytest.importorskip(module)
    for name in ("numpy stride 0", "torch expand"):
        x = OVERLAPPING[name]()
        with pytest.raises(TypeError):
            bound.fill(x, 7.0)
        assert set(ext.borrow_elements(x)) == {0}


def warns_on_write(shape: tuple[int, ...]) -> np.ndarray:
    """As numpy.broadcast_arrays makes them, also of an array whose elements do not overlap."""
    return np.broadcast_arrays(np.zeros(shape, np.float32), np.zeros((2, 4), np.float32))[0]


@pytest.mark.parametrize("shape", [(1,), (4,), (1, 4)])
def test_what_numpy_warns_of_is_read_only(take, refused, shape: tuple[int, ...]) -> None:
    """As NumPy's own buffer and `__dlpack__` say it: handed out for writing, the warning would be lost."""
    x = warns_on_write(shape)
    assert x.flags.num & 1 << 31
    assert memoryview(x).readonly
    assert take(x)["read_only"]
    assert "broadcast_arrays" in str(refused("read_only", BufferError, take, x, require_writable=True))
    with pytest.raises(ext.Error) as info:
        calls.add(x, 1.0, announce=False)
    assert info.value.code == "read_only"
    assert not x.any()


def test_a_contiguous_array_that_warns(take, refused) -> None:
    x = np.broadcast_arrays(np.zeros((1, 4), np.float32), np.zeros((1, 1, 4), np.float32))[0]
    assert x.flags.c_contiguous
    assert x.flags.num & 1 << 31
    assert take(x)["read_only"]
    refused("read_only", BufferError, take, x, require_writable=True)
    x.flags.writeable = True
    assert not take(x, require_writable=True)["read_only"]


def test_the_version_stays() -> None:
    """A refused write is none: torch's counter does not move."""
    x = torch_zeros(1).expand(4)
    with pytest.raises(ext.Error):
        calls.add(x, 1.0)
    assert x._version == 0
