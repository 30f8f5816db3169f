"""An isthmus.Tensor as an Arrow array, without a copy: `__arrow_c_array__`.

Promised (docs/export.md, "The protocol object"): columns of numbers, tensors of one shape, memory that lives as long as
the last reader.
"""

from __future__ import annotations

import ctypes
import gc
import weakref

import arrow
import capsules
import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")

NAMES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def structs(t: object) -> tuple[arrow.Schema, arrow.Array, tuple]:
    capsules = t.__arrow_c_array__()
    schema = arrow.Schema.from_address(arrow.pointer(capsules[0], b"arrow_schema"))
    array = arrow.Array.from_address(arrow.pointer(capsules[1], b"arrow_array"))
    return schema, array, capsules


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_numbers(name: str) -> None:
    a = np.arange(5).astype(name)
    schema, array, _ = structs(isthmus.from_dlpack(a))
    assert (array.length, array.null_count, array.offset, array.n_buffers, array.n_children) == (5, 0, 0, 2, 0)
    assert array.buffers[0] is None
    assert array.buffers[1] == a.ctypes.data
    assert len(schema.format) == 1


class Again:
    """Hands an array of ours to our own import, which checks all of it."""

    def __init__(self, t: object) -> None:
        self.t = t

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.t.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(take, elements, name: str) -> None:
    a = np.arange(6).astype(name)
    found = take(Again(isthmus.from_dlpack(a)))
    assert (found["data"], found["dtype"], found["shape"], found["read_only"]) == (a.ctypes.data, name, (6,), True)
    assert elements(Again(isthmus.from_dlpack(a[2:]))) == a[2:].tobytes()
    assert take(Again(isthmus.empty((0,), name)))["shape"] == (0,)


def test_memory_lives_as_long_as_the_last_reader() -> None:
    a = np.arange(4.0)
    end = weakref.ref(a)
    t = isthmus.from_dlpack(a)
    kept = ext.keep(Again(t))
    capsules = t.__arrow_c_array__()
    del a, t
    gc.collect()
    assert end() is not None
    del capsules
    gc.collect()
    assert end() is not None
    ext.drop_on_thread(kept, True)
    gc.collect()
    assert end() is None


def test_capsules_that_nobody_took_give_back() -> None:
    for shape in ((4,), (2, 2)):
        a = np.arange(4.0)
        end = weakref.ref(a)
        capsules = isthmus.from_dlpack(a.reshape(shape)).__arrow_c_array__()
        del a
        gc.collect()
        assert end() is not None
        del capsules
        gc.collect()
        assert end() is None


def test_a_capsule_with_another_name_is_its_renamers() -> None:
    a = np.arange(4.0)
    end = weakref.ref(a)
    schema, column = isthmus.from_dlpack(a).__arrow_c_array__()
    del a
    held = arrow.Array.from_address(arrow.pointer(column, b"arrow_array"))
    capsules.rename(column, b"used_arrow_array")
    del schema, column
    gc.collect()
    assert end() is not None
    arrow.RELEASE_ARRAY(held.release)(ctypes.byref(held))
    gc.collect()
    assert end() is None


def test_more_dimensions_are_tensors_of_one_shape() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    schema, array, _ = structs(isthmus.from_dlpack(a))
    assert schema.format == b"+w:12"
    assert schema.children[0].contents.format == b"f"
    address = ctypes.c_void_p.from_address(ctypes.addressof(schema) + arrow.Schema.metadata.offset).value
    metadata = ctypes.string_at(address, 103)
    assert b"ARROW:extension:name" in metadata
    assert b"arrow.fixed_shape_tensor" in metadata
    assert b'{"shape":[3,4]}' in metadata
    assert (array.length, array.n_buffers, array.n_children) == (2, 1, 1)
    child = array.children[0].contents
    assert (child.length, child.buffers[1]) == (24, a.ctypes.data)


REFUSED = {
    "bool": (lambda: np.zeros(3, bool), r"take x.to\('numpy'\).view\('uint8'\)"),
    "complex": (lambda: np.zeros(3, complex), "dtype complex128 has no counterpart in Arrow"),
    "apart": (lambda: np.arange(6.0)[::2], r"not contiguous; take isthmus.from_dlpack\(x, copy=True\)"),
    "no dimension": (lambda: np.zeros(()), r"take x.to\('numpy'\).reshape\(1\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_arrow_cannot_show(case: str) -> None:
    make, text = REFUSED[case]
    x = isthmus.from_dlpack(make())
    with pytest.raises(isthmus.TensorBufferError, match=f"no Arrow array shows this tensor: .*{text}"):
        x.__arrow_c_array__()
    if "take " in text:
        cured = eval(text[text.index("take ") + 5 :].replace("\\", ""), {"isthmus": isthmus, "x": x})
        assert isthmus.from_dlpack(cured).__arrow_c_array__()


def test_device_memory() -> None:
    with pytest.raises(isthmus.TensorBufferError, match="it is on cuda:0"):
        ext.pages([3], device=(2, 0)).__arrow_c_array__()


def test_a_tracked_tensor_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(isthmus.Error, match="requires grad"):
        isthmus.from_dlpack(torch.ones(3, requires_grad=True)).__arrow_c_array__()


def test_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow")
    a = np.arange(4.0)
    column = pa.array(isthmus.from_dlpack(a))
    assert column.type == pa.float64()
    assert column.buffers()[1].address == a.ctypes.data
    column.validate(full=True)
    b = np.arange(12, dtype=np.int16).reshape(2, 3, 2)
    tensors = pa.array(isthmus.from_dlpack(b))
    assert tensors.type == pa.fixed_shape_tensor(pa.int16(), [3, 2])
    assert tensors.to_numpy_ndarray().tolist() == b.tolist()
    tensors.validate(full=True)


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    assert pl.Series(isthmus.from_dlpack(np.arange(4.0))).to_list() == [0, 1, 2, 3]


def test_pandas_and_duckdb_take_it_by_pyarrow() -> None:
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    columns = pa.table({"x": pa.array(isthmus.from_dlpack(np.arange(4.0)))})  # noqa: F841
    assert duckdb.sql("select sum(x) from columns").fetchall() == [(6,)]
