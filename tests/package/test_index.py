"""len(), [] and iteration of isthmus.Tensor: views of the same memory, the same that NumPy's basic indexing makes."""

from __future__ import annotations

import gc
import itertools
import re
import weakref

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")

PARTS = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(-2, None, -2),
    slice(5, 2),
    ...,
]
INDICES = [
    (),
    *PARTS,
    *((part,) for part in PARTS),
    *itertools.product(PARTS, repeat=2),
    *itertools.product([1, slice(1, 3), slice(None, None, -1), ...], repeat=3),
]
SOURCES = {
    "row-major": lambda: np.arange(60.0).reshape(3, 4, 5),
    "transposed": lambda: np.arange(60.0).reshape(5, 4, 3).T,
    "backwards": lambda: np.arange(60.0).reshape(3, 4, 5)[::-1, :, ::-2],
    "broadcast": lambda: np.broadcast_to(np.arange(5.0), (3, 4, 5)),
    "of sizes 1": lambda: np.arange(1.0).reshape(1, 1, 1),
    "of no elements": lambda: np.empty((3, 0, 5)),
}


def of_numpy(a: np.ndarray, index: object) -> np.ndarray | type:
    try:
        return a[(*index, ...) if isinstance(index, tuple) and ... not in index else index] if index != () else a[...]
    except IndexError:
        return IndexError


@pytest.mark.parametrize("source", SOURCES)
def test_as_numpy_has_it(source: str) -> None:
    a = SOURCES[source]()
    t = isthmus.from_dlpack(a)
    for index in INDICES:
        wanted = of_numpy(a, index)
        if wanted is IndexError:
            with pytest.raises(IndexError):
                t[index]
            continue
        found = t[index]
        assert isinstance(found, isthmus.Tensor)
        assert found.shape == wanted.shape, index
        assert np.array_equal(np.asarray(found), wanted), index
        assert found.read_only is not a.flags.writeable
        if wanted.size:
            assert found.data_ptr == wanted.ctypes.data, index
            assert [s for s, n in zip(found.byte_strides, found.shape, strict=True) if n > 1] == [
                s for s, n in zip(wanted.strides, wanted.shape, strict=True) if n > 1
            ], index


def test_length_and_iteration() -> None:
    a = np.arange(6.0).reshape(3, 2)
    t = isthmus.from_dlpack(a)
    assert len(t) == 3
    assert [np.asarray(row).tolist() for row in t] == a.tolist()
    assert [row.shape for row in reversed(t)] == [(2,)] * 3
    x, y = t[0]
    assert (x.shape, y.data_ptr) == ((), a.ctypes.data + 8)


def test_a_part_keeps_the_memory_and_shares_it() -> None:
    class Owner(np.ndarray):
        pass

    a = np.zeros((3, 2)).view(Owner)
    gone = weakref.ref(a)
    part = isthmus.from_dlpack(a)[1:, 0]
    assert part.owner is a
    a[2, 0] = 7
    assert part.to("numpy").tolist() == [0, 7]
    del a
    gc.collect()
    assert gone() is not None
    del part
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_part_is_collected() -> None:
    class Owner(np.ndarray):
        part: object

    a = np.zeros(3).view(Owner)
    a.part = isthmus.from_dlpack(a)[1:]
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (3, IndexError, "index 3 is out of bounds for dimension 0 of size 3"),
        ((0, -3), IndexError, "index -3 is out of bounds for dimension 1 of size 2"),
        ((0, 0, 0), IndexError, "3 indices for a tensor of 2 dimensions"),
        ((..., 0, ...), IndexError, "an index has one Ellipsis at most"),
        (1 << 80, IndexError, "cannot fit"),
        (slice(0, 2, 0), ValueError, "step"),
        (True, TypeError, r"not by bool; for all else take an array of it: x.to\('numpy'\)"),
        (None, TypeError, "not by NoneType"),
        (1.0, TypeError, "not by float"),
        ([0, 1], TypeError, "not by list"),
        ("x", TypeError, "not by str"),
        (np.array([True, False, True]), TypeError, "only integer scalar arrays"),
    ],
)
def test_what_is_no_index(index: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        isthmus.from_dlpack(np.zeros((3, 2)))[index]


def test_no_dimension() -> None:
    t = isthmus.from_dlpack(np.array(1.0))
    assert t[()].data_ptr == t[...].data_ptr == t.data_ptr
    for call in (len, list):
        with pytest.raises(TypeError, match="of 0 dimensions"):
            call(t)
    with pytest.raises(IndexError):
        t[0]


@pytest.mark.parametrize("elements", [0, 1, 2])
def test_neither_true_nor_false(elements: int) -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(isthmus.from_dlpack(np.zeros(elements)))


@pytest.mark.parametrize("value", [1.0, np.float64(1), None])
def test_it_does_not_look_for_a_value(value: object) -> None:
    """Compared as objects, no part is any number."""
    t = isthmus.from_dlpack(np.ones(3))
    with pytest.raises(TypeError, match=r"value in x\.to\('numpy'\)"):
        assert value in t
    assert 1.0 in t.to("numpy")


@pytest.mark.parametrize("number", [float, int, complex])
def test_not_a_number(number: type) -> None:
    """Python would read the bytes of a buffer as text."""
    for memory in (np.frombuffer(b"12", np.uint8), np.array(12.0), np.array([12])):
        with pytest.raises(TypeError, match=r"not a number.*x\.to\('numpy'\)\.item\(\)"):
            number(isthmus.from_dlpack(memory))


def test_packed_elements() -> None:
    """Two to a byte: a part begins with one."""
    memory = np.array([0x21, 0x43, 0x65], np.uint8)
    t = isthmus.from_blob({"ptr": memory.ctypes.data, "shape": (6,), "dtype": "int4"}, owner=memory)
    assert t[2:].data_ptr == t.data_ptr + 1
    assert t[2:].shape == (4,)
    for index, text in ((slice(1, None), "begins within a byte"), (1, "begins within a byte")):
        with pytest.raises(isthmus.Error, match=text):
            t[index]


INDICES = [
    index
    for first in (slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(1, 1), 0, 1, ...)
    for index in (first, (first, slice(0, 2)), (first, slice(1, 3)), (first, slice(None, None, 2)), (first, -1))
]


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "float6_e2m3fn", "uint8"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (1, 4), (2, 1)])
def test_a_part_of_packed_elements_is_a_tensor_or_an_error(dtype: str, shape: tuple[int, int]) -> None:
    memory = np.arange(64, dtype=np.uint8)
    t = isthmus.from_blob({"ptr": memory.ctypes.data, "shape": shape, "dtype": dtype}, owner=memory)
    made = 0
    for index in INDICES:
        try:
            part = t[index]
        except isthmus.TensorValueError as error:
            assert re.search("packed|begins within a byte", str(error)), (index, error)
            assert dtype != "uint8", (index, error)
            continue
        except IndexError:
            assert max(shape) < 3 or 1 in shape
            continue
        # An import of a capsule trusts nothing that it is told.
        again = isthmus.from_dlpack(part.__dlpack__(max_version=(1, 3)))
        assert again.shape == part.shape
        made += 1
    assert made >= 5
