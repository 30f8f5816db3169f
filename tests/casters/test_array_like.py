"""ArrayLike<View<…>>: what numpy.asarray() makes an array of numbers of; NumPy judges the numbers and the refusals."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import gc
import sys
import types
import weakref
from pathlib import Path

import interrupts
import numpy as np
import processes
import pytest

import isthmus

TARGETS = ["bool", "uint8", "int8", "uint64", "int64", "float32", "float64", "complex64"]
NAN, INF = float("nan"), float("inf")


def rows(count: int) -> list:
    return [[i * count + j for j in range(count)] for i in range(count)]


LISTS = {
    "integers": [1, 2, 3],
    "a tuple": (1, 2, 3),
    "floats": [1.5, -2.0, 1e300],
    "special floats": [NAN, INF, -INF, -0.0],
    "integers and floats": [1, 2.5, 3],
    "booleans": [True, False, True],
    "booleans and integers": [True, 2],
    "booleans and floats": [True, 2.5],
    "complex numbers": [1 + 2j, -1j],
    "floats and complex numbers": [1.0, 2j],
    "negative integers": [-1, 2],
    "large integers": [2**63 - 1, -(2**63)],
    "integers beyond int64": [2**64 - 1, 1],
    "rows": [[1, 2], [3, 4], [5, 6]],
    "tuples in a list": [(1, 2), (3, 4)],
    "lists in a tuple": ([1, 2], (3, 4)),
    "deep": [[[[1], [2]]], [[[3], [4]]]],
    "none": [],
    "rows of none": [[], [], []],
    "an empty tuple": (),
    "deep and empty": [[[]], [[]]],
    "scalars of NumPy": [np.float32(1.5), np.float64(2), np.int16(3)],
    "integers of NumPy": [np.int64(1), np.uint8(2)],
    "booleans of NumPy": [np.True_, np.False_],
    "complex scalars of NumPy": [np.complex64(1j), np.complex128(2)],
    "arrays": [np.arange(3.0), np.arange(3.0) + 1],
    "arrays of several dtypes": [np.arange(3), np.arange(3.0), np.ones(3, "f4")],
    "rows that are lists and arrays": [[1, 2, 3], np.arange(3), (4.0, 5, 6)],
    "arrays of rows": [np.ones((2, 3)), np.zeros((2, 3))],
    "arrays that are not contiguous": [np.arange(6.0)[::2], np.arange(3.0)[::-1], np.arange(12.0).reshape(3, 4)[:, 1]],
    "arrays without dimensions": [np.array(1.5), 2, np.array(3)],
    "empty arrays": [np.ones((2, 0)), np.ones((2, 0))],
    "a range": range(5),
    "ranges": [range(3), range(3, 6)],
    "a deque": collections.deque([1, 2, 3]),
    "an array of the standard library": array.array("h", [1, -2, 3]),
    "bytes that may change": bytearray(b"abc"),
    "a number": 3,
    "a float": 2.5,
    "a truth": True,
    "a complex number": 1j,
    "a scalar of NumPy": np.float32(2.5),
    "an array": np.arange(6).reshape(2, 3),
    "many": rows(40),
    "one float among many integers": [*range(300), 0.5, *range(300)],
}  # fmt: skip


def natural_array(x):
    """As NumPy makes it, but for integers beyond int64 beside others, of which it makes float64."""
    if isinstance(x, list) and x and all(type(v) is int for v in x) and min(x) >= 0 and max(x) >= 2**63:
        return np.array(x, np.uint64)
    return np.asarray(x)


def as_numpy_takes_it(x, dtype):
    """The array, or None if NumPy's rules refuse it: no float becomes an integer, and each number fits."""
    natural = natural_array(x)
    if natural.dtype.kind not in "buifc":
        return None
    target = np.dtype(dtype)
    if natural.size:
        signs = natural.dtype.kind in "ui" and target.kind in "ui"
        if not signs and not np.can_cast(natural.dtype, target, "same_kind"):
            return None
        if signs and (int(natural.min()) < np.iinfo(target).min or int(natural.max()) > np.iinfo(target).max):
            return None
    with np.errstate(all="ignore"):
        made = natural.astype(target)
    if natural.size and target.kind in "fc" and not np.array_equal(np.isinf(natural), np.isinf(made)):
        return None
    return made


def is_mixed_sign(name, target):
    """An array of signed integers does not become unsigned; numbers of Python do."""
    return target in ("uint8", "uint64") and name in (
        "rows that are lists and arrays", "an array", "an array of the standard library")  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LISTS)
def test_numpy_makes_the_same_of_it(ext, name, target):
    x, take = LISTS[name], getattr(ext, f"numbers_{target}")
    wanted = None if is_mixed_sign(name, target) else as_numpy_takes_it(x, target)
    if wanted is None:
        with pytest.raises(TypeError):
            take(x)
        return
    found = np.asarray(take(x))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(found, wanted, equal_nan=wanted.dtype.kind in "fc")
    if wanted.dtype.kind == "f":
        assert np.array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", LISTS)
def test_a_view_of_any_dtype_gets_the_one_that_numpy_chooses(ext, name):
    x = LISTS[name]
    for take in (ext.numbers_of_any, ext.numbers_columns):
        found, wanted = np.asarray(take(x)), natural_array(x)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert np.array_equal(found, wanted, equal_nan=wanted.dtype.kind in "fc")


@pytest.mark.parametrize(
    ("call", "x", "dtype"),
    [
        ("numbers_floating", [1, 2], "float64"),
        ("numbers_floating", [True], "float64"),
        ("numbers_floating", [np.float32(1)], "float32"),
        ("numbers_floating", [], "float64"),
        ("numbers_integral", [1, 2], "int64"),
        ("numbers_integral", [], "int64"),
        ("numbers_integral", [np.int8(1), np.int16(2)], "int16"),
        ("numbers_one_of", [1, 2], "int16"),
        ("numbers_one_of", [1, 2.5], "float32"),
        ("numbers_one_of", [], "int16"),
    ],
)
def test_a_set_of_dtypes_gets_the_nearest(ext, call, x, dtype):
    found = np.asarray(getattr(ext, call)(x))
    assert found.dtype == dtype
    assert found.tolist() == np.asarray(x).tolist()


def test_a_set_refuses_another_kind(ext):
    for call, x in [("numbers_floating", [1j]), ("numbers_integral", [1.5]), ("numbers_one_of", [1j])]:
        with pytest.raises(TypeError):
            getattr(ext, call)(x)


class WithArray:
    def __init__(self, of):
        self.of = of

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.of, BaseException):
            raise self.of
        return self.of


class Sequence:
    """A sequence by its methods alone."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        if isinstance(self.items[i], BaseException):
            raise self.items[i]
        return self.items[i]


def test_objects_that_numpy_makes_arrays_of(ext):
    assert np.asarray(ext.numbers_float32(WithArray(np.arange(3)))).tolist() == [0, 1, 2]
    assert np.asarray(ext.numbers_float32([WithArray(np.arange(3)), [4, 5, 6]])).tolist() == [[0, 1, 2], [4, 5, 6]]
    assert np.asarray(ext.numbers_float32(Sequence(1, 2))).tolist() == [1, 2]
    assert np.asarray(ext.numbers_float32([Sequence(1, 2), (3, 4)])).tolist() == [[1, 2], [3, 4]]


def test_tensors_of_frameworks_are_rows_and_numbers(ext, torch):
    found = np.asarray(ext.numbers_float32([torch.arange(3), torch.ones(3, dtype=torch.float64)]))
    assert found.tolist() == [[0, 1, 2], [1, 1, 1]]
    assert np.asarray(ext.numbers_int64([torch.tensor(1), 2])).tolist() == [1, 2]
    assert np.asarray(ext.numbers_bfloat16([torch.ones(2, dtype=torch.bfloat16)]), np.float32).tolist() == [[1, 1]]
    with pytest.raises(isthmus.TensorBufferError, match=r"element \[0\]: the tensor requires grad"):
        ext.numbers_float32([torch.ones(3, requires_grad=True)])


def test_scalars_of_jax(ext, jax):
    assert np.asarray(ext.numbers_float32([jax.numpy.float32(1), 2])).tolist() == [1, 2]


def error(call, *arguments) -> str:
    with pytest.raises(isthmus.Error) as info:
        call(*arguments)
    return str(info.value)


WHERE = "area(): argument 'points'"
REFUSED = {
    "a string": ("12", f"{WHERE}: expected an array, a sequence of numbers or a number, got str"),
    "strings": ([[1, 2], ["3", 4]], f"{WHERE}, element [1][0]: expected a number, got str"),
    "bytes": ([b"12"], f"{WHERE}, element [0]: expected a number, got bytes"),
    "a class": ([1, np.float32], f"{WHERE}, element [1]: expected a number, got type"),
    "None": ([[1, 2], [3, None]], f"{WHERE}, element [1][1]: expected a number, got NoneType"),
    "a dict": ({"x": 1}, f"{WHERE}: expected an array, a sequence of numbers or a number, got dict"),
    "a set": ([{1, 2}], f"{WHERE}, element [0]: expected a number, got set"),
    "an object": ([[1, 2], [object(), 1]], f"{WHERE}, element [1][0]: expected a number, got object"),
    "a decimal": ([[decimal.Decimal(1), 2]], f"{WHERE}, element [0][0]: expected a number, got decimal.Decimal"),
    "a fraction": ([[1, fractions.Fraction(2)]],
                   f"{WHERE}, element [0][1]: expected a number, got fractions.Fraction"),
    "a generator": ((x for x in [1]),
                    f"{WHERE}: expected an array, a sequence of numbers or a number, got generator"),
    "longer": ([[1, 2], [3, 4, 5]], f"{WHERE}, element [1]: expected 2 elements like the first, got 3"),
    "shorter": ([[1, 2], [3]], f"{WHERE}, element [1]: expected 2 elements like the first, got 1"),
    "a number among rows": ([[1, 2], 3], f"{WHERE}, element [1]: expected a sequence of 2 elements like the first, "
                            "got int"),
    "a row among numbers": ([1, [2, 3]], f"{WHERE}, element [1]: expected a number like the first, got list"),
    "an array of another length": ([[1, 2], np.ones(3, "f4")], f"{WHERE}, element [1]: expected the shape (2,) like "
                                   "the first, got float32[3] on cpu"),
    "a complex number": ([[1, 2], [3, 4j]], f"{WHERE}, element [1][1]: complex128 does not become float32 "
                         "(numpy.can_cast, 'same_kind')"),
    "a complex row": ([np.ones(2, complex)], f"{WHERE}, element [0]: complex128 does not become float32 "
                      "(numpy.can_cast, 'same_kind')"),
    "a large float": ([[1, 2], [3, 1e300]], f"{WHERE}, element [1][1]: this number is beyond what float32 holds"),
    "a large float in a row": ([[1, 2], np.array([3, 1e300])], f"{WHERE}, element [1][1]: this number is beyond what "
                               "float32 holds"),
    "too deep": ([[[1, 2]]], f"{WHERE}: expected float32[n, 2] on cpu, got a list with more levels than that"),
    "too flat": ([1, 2], f"{WHERE}: expected float32[n, 2] on cpu, got float32[2] on cpu: number of dimensions "
                 "differs"),
    "a number": (5, f"{WHERE}: expected float32[n, 2] on cpu, got float32[] on cpu: number of dimensions differs"),
    "another size": ([[1, 2, 3]], f"{WHERE}: expected float32[n, 2] on cpu, got float32[1, 3] on cpu: dimension 1 has "
                     "size 3, expected 2"),
    "an array of objects": ([np.array([1, None])], "dtype"),
    "an array of text": ([np.array(["a"])], "dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_names_the_argument_and_the_place(ext, name):
    x, words = REFUSED[name]
    found = error(ext.points, x)
    if words == "dtype":
        assert found.startswith(f"{WHERE}, element [0]: ")
    else:
        assert found == words


def test_integers_are_named_if_they_do_not_fit(ext):
    assert error(ext.bytes_of, [[1, 2], [3, 256]]) == (
        "dither(): argument 'levels', element [1][1]: this number is beyond what uint8 holds")  # fmt: skip
    assert (
        error(ext.bytes_of, [[1, -2]]) == "dither(): argument 'levels', element [0][1]: -2 is beyond what uint8 holds"
    )
    assert error(ext.bytes_of, [[2**70]]) == (
        "dither(): argument 'levels', element [0][0]: this integer is beyond what uint8 holds")  # fmt: skip
    assert error(ext.counts, [1, 2.0]) == (
        "histogram(): argument 'counts', element [1]: float64 does not become int32 (numpy.can_cast, 'same_kind')"
    )
    assert error(ext.counts, [0] * 700 + [2**31]) == (
        "histogram(): argument 'counts', element [700]: this number is beyond what int32 holds")  # fmt: skip


def test_a_list_in_itself_is_too_deep(ext):
    x: list = []
    x.append(x)
    assert "more levels than that" in error(ext.points, x)
    with pytest.raises(TypeError):
        ext.numbers_float32(x)


def test_the_exception_of_an_element_is_the_cause(ext):
    for x in (Sequence(1, ValueError("broken")), [WithArray(ValueError("broken"))]):
        with pytest.raises(isthmus.Error, match="broken") as info:
            ext.points(x)
        assert isinstance(info.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", interrupts.KINDS)
def test_an_interrupt_passes_as_it_is(ext, kind):
    for x in (Sequence(1, kind("now")), [[1, 2], WithArray(kind("now"))]):
        for take in (ext.points, ext.numbers_float32):
            with pytest.raises(kind, match="now"):
                take(x)


class Changing:
    """A row that changes the list that it is in while it is read."""

    def __init__(self, change):
        self.change = change

    def __array__(self, dtype=None, copy=None):
        self.change()
        return np.array([1.0, 2.0])


@pytest.mark.parametrize("change", ["clear", "grow", "replace"])
def test_a_list_may_change_while_it_is_read(ext, change):
    x: list = [[0.0, 0.0] for _ in range(50)]
    actions = {"clear": x.clear, "grow": lambda: x.extend([[1, 2]] * 1000), "replace": lambda: x.__setitem__(-1, "a")}
    x[1] = Changing(actions[change])
    found = np.asarray(ext.points(x))
    assert found.shape == (50, 2)
    assert found.tolist() == [[0, 0], [1, 2]] + [[0, 0]] * 48


def test_a_row_that_changes_between_the_looks_is_refused(ext):
    inner: list = [1.0, 2.0]
    x = [Changing(inner.clear), inner]
    assert "element [1]: expected 2 elements like the first, got 0" in error(ext.points, x)


def test_what_fits_is_borrowed(ext):
    x = np.arange(3.0)
    assert ext.place_of(x) == x.ctypes.data
    assert ext.place_of(np.arange(3)) != 0


def test_the_layout_asked_for(ext):
    assert ext.column_step([[1, 2, 3], [4, 5, 6]]) == 2
    assert ext.column_step(np.array([[1, 2, 3], [4, 5, 6]])) == 2


def test_a_view_of_no_dimensions_is_a_number(ext):
    assert ext.scalar(3) == ext.scalar(3.0) == ext.scalar(np.float32(3)) == ext.scalar(np.array(3)) == 3
    for x in ([3], "3", None, 3j):
        with pytest.raises(TypeError):
            ext.scalar(x)


def test_options_containers_fields_and_named_sizes(ext):
    assert ext.total_or(None) == -1
    assert ext.total_or([1, 2]) == 3
    assert ext.totals([[1, 2], (3,), np.arange(4)]) == 12
    assert ext.polygon({"corners": [(0, 1), (1, 2)], "kinds": [1, 1]}) == 3
    assert error(ext.polygon, {"corners": [(0, 1), (1, "2")], "kinds": [1]}) == (
        "area(): argument 'polygon.corners', element [1][1]: expected a number, got str")  # fmt: skip
    assert "n is 1 here and 2 in argument 'polygon.corners'" in error(
        ext.polygon, {"corners": [(0, 1), (1, 2)], "kinds": [1]})  # fmt: skip
    assert ext.dot_like([1, 2], np.ones(2)) == 3
    with pytest.raises(isthmus.TensorValueError, match="n is 3 here and 2 in argument 'x'"):
        ext.dot_like([1, 2], np.ones(3))


def test_an_overload_that_fits_comes_first(ext):
    assert ext.which_like(np.ones(3)) == "array"
    assert ext.which_like(3) == "int"
    assert ext.which_like([1, 2]) == "like"
    assert ext.which_like(np.ones(3, "f4")) == "like"
    with pytest.raises(TypeError):
        ext.which_like(["a"])


def test_noconvert_forbids_it(ext):
    assert np.asarray(ext.numbers_strict(np.ones(2))).tolist() == [1, 1]
    with pytest.raises(TypeError):
        ext.numbers_strict([1.0, 2.0])


def test_the_copy_is_on_the_list_and_ends_with_the_call(ext):
    entries = []
    isthmus.live.enable()
    try:
        assert ext.numbers_then([1, 2, 3], lambda: entries.extend(isthmus.live())) == 6
        assert isthmus.live() == []
    finally:
        isthmus.live.disable()
    assert [(entry.producer, entry.nbytes) for entry in entries] == [("a converted argument", 24)]


def test_nothing_leaks(ext):
    class Row(list):
        pass

    kept = Row([1.0, 2.0])
    x, wrong = [kept, kept], [kept, kept, "a"]
    count = sys.getrefcount(kept)
    for _ in range(20):
        ext.points(x)
        error(ext.points, wrong)
    gc.collect()
    assert sys.getrefcount(kept) == count
    alive = weakref.ref(kept)
    del x, wrong, kept
    gc.collect()
    assert alive() is None


def test_the_stub_says_so(ext):
    signature = str(getattr(ext.points, "__nb_signature__", ext.points.__doc__))
    assert "isthmus.typing.ArrayLike" in signature
    assert "float32[n, 2] on cpu, converted where it differs" in signature


def test_without_numpy(ext):
    processes.run_python(
        f"""
        import sys
        sys.modules["numpy"] = None
        import {ext.__name__} as ext
        assert ext.total_or([1, 2]) == 3
        assert ext.totals([[1.5], range(3)]) == 4.5
        """,
        Path(ext.__file__).parent,
    )


def test_a_module_is_no_array(ext):
    with pytest.raises(TypeError):
        ext.numbers_float32(types)
