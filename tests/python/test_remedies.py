"""Every remedy that an error of an import or an export names is one: it is read out of the error's text and tried.

Promised (docs/import.md, "Checks"): "an error that says what to call".
"""

from __future__ import annotations

import ctypes
import datetime
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")


def library(name: str) -> object:
    return pytest.importorskip(name)


class OnlyArray:
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.arange(3.0)


class WithUfuncs(np.ndarray):
    def __array_ufunc__(self, *_: object, **__: object) -> object:
        return NotImplemented


def misaligned() -> np.ndarray:
    return np.zeros(17, np.uint8)[1:].view(np.float32)


def torch_with(change: Callable) -> Callable:
    return lambda: change(library("torch"))


def fixed_shape_tensors() -> object:
    pa = library("pyarrow")
    storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 4)
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 2]), storage)


def bool8() -> object:
    pa = library("pyarrow")
    return pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], "int8"))


def series_of(dtype: str) -> object:
    library("pyarrow")
    return library("pandas").Series([1, 0]).astype(dtype)


def arrow_times(kind: str, width: int) -> Callable:
    return lambda: library("pyarrow").array([1, 2, 3], f"int{width}").cast(kind)


def arrow_lists(items: list, kind: str) -> Callable:
    def make() -> object:
        pa = library("pyarrow")
        inner = pa.list_(getattr(pa, kind)(*(["us"] if kind == "timestamp" else [])), 2)
        return pa.array([[one] if one else None for one in items], pa.list_(inner, 1))

    return make


def arrow_lists_of_pandas(kind: str) -> object:
    pa = library("pyarrow")
    return library("pandas").ArrowDtype(pa.list_(getattr(pa, kind)(), 2))


def polars_arrays(items: list, kind: str) -> Callable:
    def make() -> object:
        pl = library("polars")
        return pl.Series([[one] if one else None for one in items], dtype=pl.Array(getattr(pl, kind), (1, 2)))

    return make


class Swapped:
    """As pillow's images of 16 bits are."""

    def __init__(self) -> None:
        self.array = np.arange(3, dtype=">u2" if sys.byteorder == "little" else "<u2")

    @property
    def __array_interface__(self) -> dict:
        return self.array.__array_interface__


class Fields(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))


def like_of(module: str, name: str, call: str) -> Callable:
    """A class that is called as one of a package which is not here."""
    given = np.zeros(2)
    return lambda: type(name, (), {"__module__": module, call: lambda _: given})()


# What is refused, and the call that the error names. It is evaluated with x and the libraries.
IN: dict[str, tuple[Callable[[], object], str]] = {
    "big-endian": (lambda: np.zeros(3, ">f4"), "x.astype(x.dtype.newbyteorder('='))"),
    "big-endian buffer": (lambda: memoryview(np.zeros(3, ">f4")), "numpy.asarray(x).astype('float32')"),
    "big-endian complex buffer": (lambda: memoryview(np.zeros(3, ">c16")), "numpy.asarray(x).astype('complex128')"),
    "objects": (lambda: np.array([1, 2], object), "x.astype('float64')"),
    "datetimes": (lambda: np.zeros(3, "M8[s]"), "x.view('int64')"),
    "durations apart": (lambda: np.zeros(6, "m8[us]")[::2], "x.view('int64')"),
    "a datetime": (lambda: np.zeros((), "M8[s]"), "x.view('int64')"),
    "bytes": (lambda: np.array([b"ab", b"c"]), "numpy.ascontiguousarray(x).view('uint8')"),
    "a text": (lambda: np.array("abc"), "numpy.ascontiguousarray(x).view('uint8')"),
    "texts apart": (lambda: np.array(["ab", "c", "d"])[::2], "numpy.ascontiguousarray(x).view('uint8')"),
    "texts of any length": (
        lambda: np.array(["ab", "c"], np.dtypes.StringDType()),  # type: ignore[attr-defined]
        "numpy.array(x.tolist()).view('uint32')",
    ),
    "a record": (lambda: np.zeros(3, [("it's", "f4"), ("y", "i8")]), 'x["it\'s"]'),
    "saved bfloat16": (lambda: np.zeros((2, 3), "V2"), "x.view(ml_dtypes.bfloat16)"),
    "saved bfloat16, as numbers": (lambda: np.zeros((2, 3), "V2").T, "x.view('uint16')"),
    "saved float8": (lambda: np.zeros((), "V1"), "x.view(ml_dtypes.float8_e4m3fn)"),
    "saved float8, as numbers": (lambda: np.zeros((), "V1"), "x.view('uint8')"),
    "voids of 4 bytes": (lambda: np.zeros(6, "V4")[::2], "x.view('uint32')"),
    "voids of 8 bytes": (lambda: np.zeros(3, "V8"), "x.view('uint64')"),
    "voids of 3 bytes": (lambda: np.zeros(6, "V3")[::2], "numpy.ascontiguousarray(x).view('uint8')"),
    "masked": (lambda: np.ma.masked_array([1.0, 2.0], [False, True]), "x.filled()"),
    "masked, its data": (lambda: np.ma.masked_array([1.0, 2.0], [False, True]), "x.data"),
    "a class with ufuncs": (lambda: np.zeros(3).view(WithUfuncs), "numpy.asarray(x)"),
    "only __array__": (OnlyArray, "numpy.asarray(x)"),
    "misaligned": (misaligned, "np.require(x, requirements='A')"),
    "conjugate": (torch_with(lambda torch: torch.ones(2, dtype=torch.complex64).conj()), ".resolve_conj()"),
    "negative bit": (torch_with(lambda torch: torch.ones(2, dtype=torch.complex64).conj().imag), ".resolve_neg()"),
    "sparse": (torch_with(lambda torch: torch.eye(2).to_sparse()), ".to_dense()"),
    "sparse rows": (torch_with(lambda torch: torch.eye(2).to_sparse_csr()), ".to_dense()"),
    "an arrow dictionary": (lambda: library("pyarrow").array([1, 2]).dictionary_encode(), "x.dictionary_decode()"),
    "arrow bools": (lambda: library("pyarrow").array([True, False]), "x.cast('uint8')"),
    "arrow dates": (arrow_times("date32", 32), "x.cast('int32')"),
    "arrow times": (arrow_times("time32[ms]", 32), "x.cast('int32')"),
    "arrow days": (arrow_times("date64", 64), "x.cast('int64')"),
    "arrow stamps": (arrow_times("timestamp[us]", 64), "x.cast('int64')"),
    "arrow durations": (arrow_times("duration[ns]", 64), "x.cast('int64')"),
    "arrow nanoseconds": (arrow_times("time64[ns]", 64), "x.cast('int64')"),
    "arrow chunks": (lambda: library("pyarrow").chunked_array([[1.0], [2.0]]), "x.combine_chunks()"),
    "arrow chunks of tensors": (
        lambda: library("pyarrow").chunked_array([fixed_shape_tensors()]),
        "x.combine_chunks()",
    ),
    "arrow nulls": (lambda: library("pyarrow").array([1.0, None]), "x.fill_null(0)"),
    "an arrow extension": (lambda: bool8(), "x.storage"),
    "an arrow dictionary's numbers": (
        lambda: library("pyarrow").array([1, 2]).dictionary_encode(),
        "x.indices",
    ),
    "arrow lists of bools": (
        arrow_lists([[True, False]], "bool_"),
        "x.flatten(recursive=True).cast('uint8')",
    ),
    "arrow lists of times": (
        arrow_lists([[1, 2]], "timestamp"),
        "x.flatten(recursive=True).cast('int64')",
    ),
    "arrow lists of days": (
        arrow_lists([[1, 2]], "date32"),
        "x.flatten(recursive=True).cast('int32')",
    ),
    "arrow lists with nulls in them": (
        arrow_lists([[1, None], [3, 4]], "int32"),
        "x.flatten(recursive=True).fill_null(0)",
    ),
    "arrow lists that are null": (
        arrow_lists([None, [3, 4]], "int32"),
        "x.flatten(recursive=True).fill_null(0)",
    ),
    "a table of arrow": (lambda: library("pyarrow").table({"a": [1.0]}), "x.column(name).combine_chunks()"),
    "a batch": (lambda: library("pyarrow").RecordBatch.from_pydict({"a": [1.0]}), "x.column(name)"),
    "a reader": (
        lambda: library("pyarrow").table({"a": [1.0]}).to_reader(),
        "x.read_all().column(name).combine_chunks()",
    ),
    "a table": (lambda: library("pandas").DataFrame({"a": [1.0]}), "x.to_numpy()"),
    "a pandas index": (lambda: library("pandas").Index([1, 2]), "x.to_numpy()"),
    "an array of pandas": (lambda: library("pandas").array([1, 2]), "x.to_numpy()"),
    "pandas bools": (lambda: series_of("bool[pyarrow]"), "x.astype('uint8')"),
    "pandas times": (lambda: series_of("timestamp[us][pyarrow]"), "x.astype('int64')"),
    "pandas categories": (lambda: series_of("category"), "x.to_numpy()"),
    "pandas categories' numbers": (lambda: series_of("category"), "x.cat.codes"),
    "pandas lists of bools": (
        lambda: library("pandas").Series([[True, False]], dtype=arrow_lists_of_pandas("bool_")),
        "x.list.flatten().astype('uint8')",
    ),
    "pandas complex numbers": (lambda: library("pandas").Series([1j, 2j]), "x.to_numpy()"),
    "pandas sparse numbers": (
        lambda: library("pandas").Series(library("pandas").arrays.SparseArray([0, 1])),
        "x.to_numpy()",
    ),
    "pandas nulls": (lambda: library("pandas").Series([1.0, None], dtype="float64[pyarrow]"), "x.fillna(0)"),
    "pandas periods": (
        lambda: library("pandas").Series(library("pandas").period_range("2020", periods=2, freq="D")),
        "x.astype('int64')",
    ),
    "a frame of polars": (lambda: library("polars").DataFrame({"a": [1.0]}), "x.to_numpy()"),
    "a lazy frame": (lambda: library("polars").LazyFrame({"a": [1.0]}), "x.collect().to_numpy()"),
    "polars bools": (lambda: library("polars").Series([True, False]), "x.cast(polars.UInt8)"),
    "polars categories": (
        lambda: library("polars").Series(["a"], dtype=library("polars").Categorical),
        "x.to_physical()",
    ),
    "polars arrays of bools": (polars_arrays([[True, False]], "Boolean"), "x.reshape((-1,)).cast(polars.UInt8)"),
    "polars arrays with nulls in them": (polars_arrays([[1, None]], "Int32"), "x.reshape((-1,)).fill_null(0)"),
    "polars arrays that are null": (polars_arrays([None, [3, 4]], "Int32"), "x.reshape((-1,)).fill_null(0)"),
    "polars arrays of times": (polars_arrays([[1, 2]], "Duration"), "x.to_physical()"),
    "polars nulls": (lambda: library("polars").Series([1.0, None]), "x.fill_null(0)"),
    "polars dates": (lambda: library("polars").Series([datetime.date(2020, 1, 1)]), "x.to_physical()"),
    "polars times": (lambda: library("polars").Series([datetime.datetime(2020, 1, 1)]), "x.to_physical()"),
    "xarray": (lambda: library("xarray").DataArray([1.0]), "x.values"),
    "a dataset of xarray": (lambda: library("xarray").Dataset({"a": ("d", [1.0])}), "x[name].values"),
    "a quantity of pint": (lambda: library("pint").UnitRegistry().Quantity(np.ones(2), "m"), "x.magnitude"),
    "dask": (lambda: library("dask.array").ones(2), "x.compute()"),
    "zarr": (lambda: library("zarr").ones(2), "x[...]"),
    "scipy": (lambda: library("scipy.sparse").csr_array(np.eye(2)), "x.toarray()"),
    "sparse coordinates": (lambda: library("sparse").COO(np.eye(2)), "x.todense()"),
    "sparse coordinates, by its name": (like_of("sparse.core", "SparseArray", "todense"), "x.todense()"),
    "a relation of duckdb": (lambda: library("duckdb").sql("select 1.5::double as a"), "x.fetchnumpy()[name]"),
    "a video frame": (like_of("av.video.frame", "VideoFrame", "to_ndarray"), "x.to_ndarray()"),
    "an audio frame": (like_of("av.audio.frame", "AudioFrame", "to_ndarray"), "x.to_ndarray()"),
    "long complex numbers": (lambda: np.zeros(3, np.clongdouble), "x.astype('complex128')"),
    "numbers in another order": (Swapped, "numpy.asarray(x).astype('uint16')"),
    "a struct of ctypes": (lambda: (Fields * 3)(), "numpy.asarray(x)[name]"),
    "a scalar of ml_dtypes": (lambda: library("ml_dtypes").bfloat16(2), "numpy.asarray(x)"),
    "one record": (lambda: np.zeros(1, [("a", "f4")])[0], "numpy.asarray(x)[name]"),
    "mkldnn": (torch_with(lambda torch: torch.ones(2, 2).to_mkldnn()), ".to_dense()"),
    "nested": (
        torch_with(lambda torch: torch.nested.nested_tensor([torch.ones(2)])),
        "torch.nested.to_padded_tensor(x, 0)",
    ),
    "nested, jagged": (
        torch_with(lambda torch: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)),
        "torch.nested.to_padded_tensor(x, 0)",
    ),
    "quantised": (
        torch_with(lambda torch: torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8)),
        ".dequantize()",
    ),
    "quantised, its numbers": (
        torch_with(lambda torch: torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8)),
        ".int_repr()",
    ),
    "bits": (torch_with(lambda torch: torch.ones(2, dtype=torch.uint8).view(torch.bits8)), ".view(torch.uint8)"),
    "polars chunks": (
        lambda: library("polars").concat([library("polars").Series([1.0])] * 2, rechunk=False),
        "x.rechunk()",
    ),
}


def names(remedy: str) -> dict[str, object]:
    known: dict[str, object] = {"numpy": np, "np": np, "isthmus": isthmus, "name": "a"}
    return known | {name: library(name) for name in ("ml_dtypes", "torch", "polars") if f"{name}." in remedy}


@pytest.mark.parametrize("case", IN)
def test_the_remedy_of_an_import(take, case: str) -> None:
    make, remedy = IN[case]
    x = make()
    with pytest.raises(ext.Error) as info:
        take(x)
    assert remedy in str(info.value)
    cured = eval(f"x{remedy}" if remedy.startswith(".") else remedy, names(remedy), {"x": x})
    found = take(cured)
    assert found["size"] > 0


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, MemoryError])
def test_a_remedy_keeps_what_was_raised(take, kind: type[BaseException]) -> None:
    def stream(*_: object) -> object:
        raise kind("mine")

    x = type("Series", (), {"__module__": "pandas", "__arrow_c_stream__": stream})()
    if kind is ValueError:
        with pytest.raises(ext.Error, match=r"raised ValueError: mine; x\.to_numpy\(\) gives an array") as info:
            take(x)
        assert info.value.__cause__.args == ("mine",)
    else:
        with pytest.raises(kind, match="mine"):
            take(x)


def test_a_scalar_of_ml_dtypes_keeps_what_was_raised(take) -> None:
    with pytest.raises(ext.Error, match=r"raised TypeError: .*; numpy") as info:
        take(library("ml_dtypes").bfloat16(2))
    assert isinstance(info.value.__cause__, TypeError)


WRITTEN: dict[str, tuple[Callable[[], object], str]] = {
    "a leaf": (torch_with(lambda torch: torch.ones(2, requires_grad=True)), ".detach()"),
    "a view of a leaf": (torch_with(lambda torch: torch.ones(2, requires_grad=True)[:1]), ".detach()"),
    "one of several views": (
        torch_with(lambda torch: (torch.ones(2, requires_grad=True) * 1).unbind()[0]),
        ".clone()",
    ),
    "of inference mode": (torch_with(lambda torch: torch.inference_mode()(torch.ones)(2)), ".clone()"),
    "overlapping": (lambda: np.lib.stride_tricks.as_strided(np.zeros(3), (2, 2), (8, 8)), "copy"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_the_remedy_of_a_write(take, case: str) -> None:
    make, remedy = WRITTEN[case]
    x = make()
    with pytest.raises(ext.Error) as info:
        take(x, require_writable=True)
    assert remedy in str(info.value)
    cured = eval(f"x{remedy}", {}, {"x": x}) if remedy.startswith(".") else x.copy()
    assert not take(cured, require_writable=True)["read_only"]


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: np.zeros(3, bool), "x.to('numpy').view('uint8')"),
        (lambda: np.zeros(()), "x.to('numpy').reshape(1)"),
        (lambda: np.zeros((4, 4))[:, ::2], "isthmus.from_dlpack(x, copy=True)"),
    ],
)
def test_the_remedy_of_an_arrow_array(make: Callable[[], np.ndarray], remedy: str) -> None:
    x = isthmus.from_dlpack(make())
    with pytest.raises(isthmus.Error) as info:
        x.__arrow_c_array__()
    assert remedy in str(info.value)
    assert isthmus.from_dlpack(eval(remedy, {"isthmus": isthmus}, {"x": x})).__arrow_c_array__()


def test_the_shape_of_chunks_of_tensors_is_kept(take) -> None:
    """`.storage` would lose it."""
    x = library("pyarrow").chunked_array([fixed_shape_tensors()])
    with pytest.raises(ext.Error) as info:
        take(x)
    assert "storage" not in str(info.value)
    assert np.asarray(x.combine_chunks().to_numpy_ndarray()).shape == (2, 2, 2)


OUT: dict[str, tuple[Callable[[], object], str, dict]] = {
    "read-only to torch": (lambda: isthmus.from_dlpack(b"abc"), "allow_copy", {"allow_copy": True}),
    "read-only to torch, shared": (
        lambda: isthmus.from_dlpack(b"abc"),
        "allow_read_only_loss",
        {"allow_read_only_loss": True},
    ),
    "backwards to torch": (lambda: isthmus.from_dlpack(np.arange(3.0)[::-1]), "allow_copy", {"allow_copy": True}),
}


@pytest.mark.parametrize("case", OUT)
def test_the_remedy_of_an_export(case: str) -> None:
    torch = library("torch")
    make, word, options = OUT[case]
    t = make()
    with pytest.raises(isthmus.Error) as info:
        t.to("torch")
    assert word in str(info.value)
    assert torch.equal(t.to("torch", **options), torch.from_numpy(np.asarray(t).copy()))


def test_a_packed_part_and_a_tensor_without_a_truth() -> None:
    t = isthmus.from_dlpack(np.arange(3.0))
    for ask in (lambda: bool(t), lambda: t[[0, 1]]):
        with pytest.raises(TypeError, match=re.escape("x.to('numpy')")):
            ask()
    assert t.to("numpy")[[0, 1]].tolist() == [0, 1]


class Frozen:
    """A legacy producer of memory that only `__array_struct__` says must not be written."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, stream: object = None) -> object:
        writable = np.ctypeslib.as_array((ctypes.c_double * 3).from_address(self.array.ctypes.data))
        return writable.__dlpack__()

    @property
    def __array_struct__(self) -> object:
        return self.array.__array_struct__


@pytest.mark.parametrize("read_only", [True, False])
def test_a_legacy_capsule_beside_an_array_struct(take, refused, read_only: bool) -> None:
    array = np.arange(3.0)
    array.setflags(write=not read_only)
    assert take(Frozen(array))["read_only"] is read_only
    if read_only:
        refused("read_only", BufferError, take, Frozen(array), require_writable=True)


@pytest.mark.parametrize("name", ["longlong", "ulonglong", "intc", "uintc", "longdouble", "int_", "bool_", "half"])
def test_scalar_types_by_every_name(name: str) -> None:
    kind = getattr(np, name)
    assert isthmus.DType(kind) == isthmus.DType(np.dtype(kind))
    assert isthmus.empty((2,), kind).itemsize == np.dtype(kind).itemsize


@pytest.mark.parametrize("kind", [np.floating, np.generic, np.clongdouble, np.void, np.str_, np.object_])
def test_scalar_types_that_are_none(kind: type) -> None:
    with pytest.raises(isthmus.Error, match="a dtype of isthmus or a framework"):
        isthmus.DType(kind)
