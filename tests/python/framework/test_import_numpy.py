"""NumPy arrays, read by their struct."""

from __future__ import annotations

import gc
import re
import sys
import weakref

import numpy as np
import pytest

import isthmus_test_ext as ext

DTYPES = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "float32": "float32",
    "float64": "float64", "complex64": "complex64", "complex128": "complex128", "longlong": "int64",
    "ulonglong": "uint64", "intc": "int32", "uintc": "uint32",
    "longdouble": f"float{8 * np.dtype('longdouble').itemsize}",
}  # fmt: skip
ML_DTYPES = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int2", "int4", "uint2",
    "uint4",
]  # fmt: skip


def grid() -> np.ndarray:
    return np.arange(24, dtype=np.float32).reshape(4, 6)


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "columns": lambda a: a[:, ::2],
    "rows": lambda a: a[1:3],
    "offset": lambda a: a[1:, 2:],
    "reversed": lambda a: a[::-1],
    "reversed_both": lambda a: a[::-1, ::-2],
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
    "scalar": lambda a: a[2, 3, ...],
    "one": lambda a: a[:1, :1],
    "empty": lambda a: a[:0],
    "empty_inside": lambda a: a[:, 3:3],
    "added_axes": lambda a: a[None, :, None],
    "fortran": np.asfortranarray,
    "diagonal": lambda a: np.lib.stride_tricks.as_strided(a, (4,), (28,)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 3),
}


def check(found: dict, a: np.ndarray) -> None:
    assert found["data"] == a.ctypes.data
    assert found["shape"] == a.shape
    assert found["device"] == "cpu"
    assert found["read_only"] == (not a.flags.writeable)
    assert found["itemsize"] == a.itemsize
    assert found["size"] == a.size
    assert found["contiguous"] == a.flags.c_contiguous
    if a.size:
        wanted = [s // a.itemsize for s in a.strides]
        assert [s for s, n in zip(found["strides"], a.shape, strict=True) if n > 1] == [
            s for s, n in zip(wanted, a.shape, strict=True) if n > 1
        ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(take, layout: str) -> None:
    a = LAYOUTS[layout](grid())
    check(take(a), a)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(elements, layout: str) -> None:
    a = LAYOUTS[layout](grid())
    assert elements(a) == a.tobytes()


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(take, elements, name: str) -> None:
    a = np.arange(6).astype(name).reshape(2, 3)
    found = take(a)
    check(found, a)
    assert found["dtype"] == DTYPES[name]
    assert elements(a.T) == a.T.tobytes()


@pytest.mark.parametrize("name", ML_DTYPES)
def test_ml_dtypes(take, elements, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, name):
        pytest.skip(f"this ml_dtypes has no {name}")
    a = np.array([0, 1, 1, 1], getattr(ml_dtypes, name))
    found = take(a)
    check(found, a)
    assert found["dtype"] == name
    # One element a byte, though it has fewer bits: said by a flag, not by another dtype.
    assert found["padded"] == (found["dtype_fields"][1] < 8)
    assert elements(a) == a.tobytes()


@pytest.mark.parametrize("ndim", [0, 1, 2, 8, 9, 31, 32])
def test_ranks(take, ndim: int) -> None:
    a = np.zeros((1,) * (ndim - 1) + ((5,) if ndim else ()), np.int16)
    check(take(a), a)


def test_rank_64(take) -> None:
    try:
        a = np.zeros((1,) * 64, np.int16)
    except ValueError:
        pytest.skip("this NumPy stops at 32 dimensions")
    check(take(a), a)


@pytest.mark.parametrize(
    ("dtype", "code", "words"),
    [
        (">f4", "not_values", "newbyteorder"),
        (">i2", "not_values", "newbyteorder"),
        (">c16", "not_values", "newbyteorder"),
        ("O", "bad_dtype", "numeric dtype"),
        ("M8[ns]", "bad_dtype", "int64"),
        ("m8[s]", "bad_dtype", "int64"),
        ("U3", "bad_dtype", "uint8"),
        ("S3", "bad_dtype", "uint8"),
        ("V4", "bad_dtype", "field"),
        ([("x", "f4"), ("y", "i4")], "bad_dtype", "field"),
    ],
)
def test_refused_dtypes(take, refused, dtype: object, code: str, words: str) -> None:
    assert words in str(refused(code, BufferError, take, np.zeros(3, dtype)))


def test_refused_long_complex(take, refused) -> None:
    if np.dtype("clongdouble").itemsize == 16:
        pytest.skip("long double is double here")
    refused("bad_dtype", BufferError, take, np.zeros(3, "clongdouble"))


def test_one_byte_big_endian_is_native(take) -> None:
    assert take(np.zeros(3, ">i1"))["dtype"] == "int8"


def test_field_of_a_structured_array(take, elements, refused) -> None:
    a = np.zeros(4, [("x", "f4"), ("y", "f4")])
    a["y"] = [1, 2, 3, 4]
    assert take(a["y"])["strides"] == (2,)
    assert elements(a["y"]) == a["y"].tobytes()
    # 5 bytes from one to the next: no multiple of 4.
    packed = np.zeros(4, [("x", "f4"), ("y", "u1")])
    assert "copy" in str(refused("needs_copy", BufferError, take, packed["x"]))
    assert take(packed["y"])["strides"] == (5,)
    assert take(packed["x"][:1])["shape"] == (1,)


def test_unaligned(take, refused) -> None:
    raw = np.zeros(17, np.uint8)
    assert "aligned" in str(refused("needs_copy", BufferError, take, raw[1:].view(np.float32)))
    assert take(raw[1:].view(np.uint8))["shape"] == (16,)


def test_masked(take, refused) -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    assert ".filled()" in str(refused("not_values", BufferError, take, masked))
    assert take(masked.data)["shape"] == (2,)
    assert take(masked.filled(0))["shape"] == (2,)


def test_read_only(take, refused) -> None:
    a = grid()
    assert not take(a, require_writable=True)["read_only"]
    a.flags.writeable = False
    assert take(a)["read_only"]
    assert "read-only" in str(refused("read_only", BufferError, take, a, require_writable=True))
    a.flags.writeable = True
    assert not take(a)["read_only"]


def test_read_only_kinds(take) -> None:
    assert take(np.broadcast_to(np.float32(1), (3,)))["read_only"]
    assert take(np.frombuffer(b"12345678", np.float32))["read_only"]
    assert not take(np.frombuffer(bytearray(8), np.float32))["read_only"]


def test_memory_map(take, tmp_path) -> None:
    grid().tofile(tmp_path / "grid")
    for mode, read_only in (("r", True), ("r+", False), ("c", False)):
        a = np.memmap(tmp_path / "grid", np.float32, mode, shape=(4, 6))
        assert take(a)["read_only"] == read_only
        check(take(a), a)


def test_subclasses(take) -> None:
    class Named(np.ndarray):
        pass

    for a in (grid().view(Named), np.asmatrix(grid()), grid().view(np.recarray)):
        check(take(a), a)


def test_numpy_scalars(take, elements) -> None:
    for name in ("float32", "int64", "bool", "complex128", "float16"):
        scalar = np.dtype(name).type(1)
        found = take(scalar)
        assert (found["dtype"], found["shape"]) == (name, ())
        assert elements(scalar) == scalar.tobytes()


def test_lists_and_numbers_are_no_tensors(take, refused) -> None:
    for x in ([1.0, 2.0], (1, 2), 3, 2.5, None, "text", {}, {1}, np, np.ndarray, np.float32, object()):
        error = refused("not_a_tensor", TypeError, take, x)
        assert (x.__name__ if isinstance(x, type) else type(x).__name__) in str(error)


def test_references_are_exact() -> None:
    a = grid()
    before = sys.getrefcount(a)
    for _ in range(100):
        ext.borrow(a)
        ext.own(a)
    assert sys.getrefcount(a) == before
    number = ext.keep(a)
    assert sys.getrefcount(a) == before + 1
    ext.share(number)
    assert sys.getrefcount(a) == before + 1, "a copied handle takes no reference"
    ext.drop(number)
    assert sys.getrefcount(a) == before + 1
    ext.drop(number + 1)
    assert sys.getrefcount(a) == before


def test_references_after_refusal() -> None:
    for dtype in (">f4", "O", "U3"):
        a = np.zeros(3, dtype)
        before = sys.getrefcount(a), sys.getrefcount(a.dtype)
        for _ in range(50):
            for call in (ext.borrow, ext.own):
                with pytest.raises(ext.Error):
                    call(a)
        assert (sys.getrefcount(a), sys.getrefcount(a.dtype)) == before


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "with the GIL", "without the GIL"])
def test_the_owner_lives_as_long_as_the_handle(drop: str) -> None:
    a = np.arange(1000, dtype=np.int32)
    wanted = a.tobytes()
    gone = weakref.ref(a)
    number = ext.keep(a)
    del a
    gc.collect()
    assert gone() is not None
    assert ext.kept_elements(number) == wanted
    if drop.startswith("drop"):
        getattr(ext, drop)(number)
    else:
        ext.drop_on_thread(number, drop == "with the GIL")
    assert gone() is None


def test_moved_guard() -> None:
    a = grid()[:, ::2]
    check(ext.borrow_moved(a), a)


def test_copy(take) -> None:
    a = np.asfortranarray(grid())
    a.flags.writeable = False
    found = take(a, copy="always")
    assert found["data"] != a.ctypes.data
    assert (found["shape"], found["strides"], found["read_only"], found["copied"]) == ((4, 6), (6, 1), False, True)
    assert take(a, copy="always", require_writable=True)["copied"]
    assert ext.own_elements(a, copy="always") == a.tobytes()
    assert take(a, copy="if_needed")["data"] == a.ctypes.data


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_have_the_values(layout: str) -> None:
    a = LAYOUTS[layout](grid())
    assert ext.own_elements(a, copy="always") == a.tobytes()
    assert ext.borrow_elements(a, copy="always") == a.tobytes()


def test_where_it_is_wanted(take, refused) -> None:
    a = grid()
    assert take(a, device=(1, 0))["data"] == a.ctypes.data
    with pytest.raises(ext.Error):
        take(a, device=(2, 0))


def test_array_that_changes_between_imports(take) -> None:
    a = grid()
    check(take(a), a)
    a.shape = (2, 12)
    check(take(a), a)
    b = a.view(np.int32)
    check(take(b), b)


def test_a_dtype_of_nobody_that_is_known(take, refused) -> None:
    """As a package may add it to NumPy: its name says nothing here."""
    rational = pytest.importorskip("numpy._core._rational_tests").rational
    assert "dtype rational" in str(refused("bad_dtype", BufferError, take, np.zeros(3, rational)))


def test_a_scalar_that_hides_its_dtype(take, refused) -> None:
    class Hiding(np.float32):
        @property
        def dtype(self):
            raise LookupError("hidden")

    error = refused("producer_failed", BufferError, take, Hiding(3))
    assert isinstance(error.__cause__, LookupError)


def test_a_stride_that_is_no_number_of_elements_is_not_rounded() -> None:
    """Of a dimension that is never stepped along it may be anything, and the array still counts as contiguous."""
    a = np.ndarray((1, 2), np.float32, np.zeros(4, np.float32), 0, (3, 4))
    assert a.strides == (3, 4)
    assert a.flags.c_contiguous
    for _ in range(2):  # the first array of a type is looked at more closely
        assert ext.tensor_of(a).strides == (2, 1)


class Plain(np.ndarray):
    """Adds an attribute, and changes nothing that NumPy does."""

    info = "mine"

    def __array_finalize__(self, source: object) -> None:
        self.info = getattr(source, "info", None)


class WithUnit(np.ndarray):
    """As astropy's Quantity and Masked: its ufuncs use more than the numbers."""

    def __array_ufunc__(self, ufunc: object, method: str, *inputs: object, **options: object) -> object:
        return NotImplemented


class Handles(np.ndarray):
    def __array_function__(self, function: object, types: object, args: object, options: object) -> object:
        return NotImplemented


class OfUnit(WithUnit):
    pass


class AddsUnits(np.ndarray):
    """As pymatgen's ArrayWithUnit: it overrides the operators alone."""

    def __add__(self, other: object) -> object:
        return NotImplemented


class Multiplies(np.ndarray):
    def __mul__(self, other: object) -> object:
        return NotImplemented


class ShowsOther(np.ndarray):
    """NumPy's consumers are shown other memory than the array's."""

    @property
    def __array_interface__(self) -> dict:
        return np.zeros(1).__array_interface__


class IsMadeAnew(np.ndarray):
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.zeros(1)


def test_a_subclass_that_adds_nothing(take) -> None:
    a = grid()
    for kind in (Plain, np.matrix, np.recarray):
        assert take(a.view(kind))["data"] == a.ctypes.data


@pytest.mark.parametrize("kind", [WithUnit, Handles, OfUnit, AddsUnits, Multiplies, ShowsOther, IsMadeAnew])
@pytest.mark.parametrize("options", [{}, {"copy": "always"}, {"require_writable": True}])
def test_a_subclass_that_changes_what_its_elements_mean(take, refused, kind, options) -> None:
    a = grid()
    error = refused("not_values", BufferError, take, a.view(kind), **options)
    assert re.search(rf"a .*{kind.__name__} is not taken: .*; numpy.asarray\(x\) gives the numbers alone", str(error))
    assert take(np.asarray(a.view(kind)))["data"] == a.ctypes.data


def test_masked_by_astropy(take, refused) -> None:
    masked = pytest.importorskip("astropy.utils.masked").Masked(np.arange(3.0), mask=[False, True, False])
    refused("not_values", BufferError, take, masked)
    assert take(np.asarray(masked))["data"] == masked.unmasked.ctypes.data


class Refuses(np.ndarray):
    """Its `__dlpack__` says why it cannot be exported, and numpy.from_dlpack() does not take it either."""

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("these are ciphers")


class Redirects(np.ndarray):
    other = np.arange(5.0)

    def __dlpack__(self, **options: object) -> object:
        return self.other.__dlpack__(**options)


@pytest.mark.parametrize("options", [{}, {"copy": "if_needed"}, {"copy": "always"}])
def test_a_subclass_whose_dlpack_refuses(take, refused, options) -> None:
    error = refused("producer_failed", BufferError, take, grid().view(Refuses), **options)
    assert "these are ciphers" in str(error)


def test_a_subclass_whose_dlpack_shows_other_memory(take) -> None:
    found = take(grid().view(Redirects))
    assert (found["data"], found["shape"]) == (Redirects.other.ctypes.data, (5,))
