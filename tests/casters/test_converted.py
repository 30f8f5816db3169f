"""Converted<View<…>>: what differs in dtype, layout or alignment comes in as a copy for the length of the call; NumPy
and ml_dtypes judge the numbers, numpy.can_cast what is of the same kind."""

from __future__ import annotations

import gc
import sys
import weakref

import libraries
import numpy as np
import pytest

import isthmus

ml_dtypes = pytest.importorskip("ml_dtypes")

SMALL = [
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "bfloat16",
]  # fmt: skip
PLAIN = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
TARGETS = [
    "bool", "uint8", "int16", "int32", "int64", "uint64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
KINDS = "buifc"


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name in SMALL else name)


def kind(name: str) -> int:
    return KINDS.index("f" if name in SMALL else dtype_of(name).kind)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def numbers(source: str, target: str) -> np.ndarray:
    """Small numbers that both hold the range of, and what rounding has to decide."""
    rng = np.random.default_rng(0)
    if dtype_of(source).kind == "b":
        return rng.integers(0, 2, 1000).astype(bool)
    if kind(source) < 3:
        least = 0 if "u" in (dtype_of(source).kind, dtype_of(target).kind) else -100
        return rng.integers(least, 101, 1000).astype(source)
    values = rng.normal(0, 2, 1000) * 2.0 ** rng.integers(-12, 3, 1000)
    values[:6] = [0, -0.0, 1, -1, 0.5, 1.5]
    if kind(source) == 4:
        values = values + 1j * rng.normal(0, 2, 1000)
    values = values.astype(dtype_of(source))
    return values[np.isfinite(values.astype(complex))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [*PLAIN, *SMALL])
def test_every_pair_of_dtypes(ext, source, target):
    take = getattr(ext, f"seen_{target}")
    x = numbers(source, target)
    if kind(source) > kind(target) or (target == "bool" and source != "bool"):
        with pytest.raises(TypeError):
            take(x)
        return
    assert np.can_cast(x.dtype, dtype_of(target), "same_kind") or {source, target} & set(SMALL)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype_of(target))
    found = take(x)
    assert found.dtype.name == target
    assert np.array_equal(bits(np.asarray(found)), bits(wanted))


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"])
def test_every_16_bit_pattern_is_rounded_as_ml_dtypes_does(ext, target):
    for source in (np.float16, ml_dtypes.bfloat16):
        x = np.arange(2**16, dtype=np.uint16).view(source)
        with np.errstate(all="ignore"):
            wanted = x.astype(dtype_of(target))
            kept = np.isnan(x.astype("f8")) | (np.isinf(x.astype("f8")) == np.isinf(wanted.astype("f8")))
            kept &= np.isnan(x.astype("f8")) == np.isnan(wanted.astype("f8"))
        found = np.asarray(getattr(ext, f"seen_{target}")(x[kept]))
        with np.errstate(all="ignore"):
            nan = np.isnan(found.astype("f8"))
            wanted_nan = np.isnan(wanted[kept].astype("f8"))
        same = (bits(found).reshape(-1, found.itemsize) == bits(wanted[kept]).reshape(-1, found.itemsize)).all(1)
        assert (same | nan).all()
        assert (nan == wanted_nan).all()


def test_large_integers_are_rounded_once(ext):
    x = np.array([2**62 + 1, 2**53 + 1, 2**24 + 1, 2**24 + 3, -(2**25) - 2, 2**63 - 1], np.int64)
    assert np.array_equal(np.asarray(ext.seen_float32(x)), x.astype(np.float32))
    assert np.array_equal(np.asarray(ext.seen_float64(x)), x.astype(np.float64))


BEYOND = {
    "int64 to int32": ("int32", np.array([0, 2**31 - 1, 2**31]), 2),
    "int64 to int16, negative": ("int16", np.array([-(2**15), -(2**15) - 1]), 1),
    "uint8 from uint64": ("uint8", np.array([255, 256], np.uint64), 1),
    "int64 from uint64": ("int64", np.array([2**63 - 1, 2**63], np.uint64), 1),
    "a float that would be infinite": ("float32", np.array([3.4e38, 1e39]), 1),
    "minus": ("float32", np.array([-3.4e38, -1e39]), 1),
    "an integer that would be": ("float16", np.array([65504, 65520]), 1),
    "infinity where there is none": ("float8_e4m3fn", np.array([448.0, np.inf]), 1),
    "what would be NaN": ("float8_e4m3fn", np.array([448.0, 1000.0]), 1),
    "an imaginary part": ("complex64", np.array([1, 1e300j]), 1),
    "far behind": ("int32", np.array([0] * 1000 + [2**40] + [0] * 3), 1000),
}


@pytest.mark.parametrize("case", BEYOND)
def test_a_number_that_is_beyond_the_dtype_is_refused(ext, case):
    target, x, place = BEYOND[case]
    take = getattr(ext, f"seen_{target}")
    with pytest.raises(TypeError):
        take(x)
    take(x[:place])
    x = x[:place]
    assert np.asarray(take(x)).shape == (place,)


def test_any_pair_in_any_layout_is_what_numpy_makes(ext):
    """Sizes around those of the inner loops, axes in any order, steps forwards and backwards, NaN and infinity."""
    rng = np.random.default_rng(1)
    pairs = [
        (a, b)
        for a in PLAIN
        for b in TARGETS
        if b not in SMALL and b != "bool" and a != b and np.can_cast(dtype_of(a), dtype_of(b), "same_kind")
    ]
    for round_ in range(1500):
        source, target = pairs[round_ % len(pairs)]
        ndim = int(rng.integers(1, 4))
        shape = [int(n) for n in rng.choice([1, 2, 3, 31, 32, 33, 255, 257], ndim)]
        while np.prod(shape) > 20_000:
            shape[int(np.argmax(shape))] = 2
        x = np.resize(numbers(source, target), shape)
        if kind(source) >= 3 and rng.integers(2):
            x[tuple(rng.integers(0, n) for n in shape)] = rng.choice([np.nan, np.inf, -np.inf])
        x = x.transpose(rng.permutation(ndim))[
            tuple(slice(None, None, int(s)) for s in rng.choice([1, 1, 2, -1], ndim))
        ]
        with np.errstate(all="ignore"):
            wanted = x.astype(target, order="C")
        found = np.asarray(getattr(ext, f"seen_{target}")(x))
        assert np.array_equal(found, wanted, equal_nan=True), (source, target, x.shape, x.strides)


@pytest.mark.parametrize("place", [0, 1, 31, 32, 255, 256, 300, 999])
@pytest.mark.parametrize("target", ["uint8", "int16", "int32", "int64", "float32"])
def test_the_one_number_that_is_refused_is_named_wherever_it_is(ext, target, place):
    x = np.zeros(1000, "float64" if target == "float32" else "uint64")
    x[place] = 1e300 if target == "float32" else 2**63
    take = getattr(ext, f"seen_{target}")
    for view in (x, np.repeat(x, 2)[::2]):
        with pytest.raises(TypeError):
            take(view)
    if target == "float32":
        with pytest.raises(ValueError, match=rf"the element at \({place},\) is beyond what float32 holds"):
            ext.signal_back(x)


def test_special_numbers_stay_what_they_are(ext):
    x = np.array([np.inf, -np.inf, np.nan, -0.0])
    assert np.array_equal(np.asarray(ext.seen_float32(x)), x.astype(np.float32), equal_nan=True)
    assert np.signbit(np.asarray(ext.seen_float16(x))[3])
    assert np.isnan(np.asarray(ext.seen_float8_e4m3fn(x[2:])).astype(float)[0])


def grid() -> np.ndarray:
    return np.arange(24.0).reshape(4, 6)


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "every other": lambda a: a[:, ::2],
    "reversed": lambda a: a[::-1, ::-2],
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
    "one": lambda a: a[:1, :1],
    "none": lambda a: a[:0],
    "scalar": lambda a: a[2, 3, ...],
    "wide": lambda a: np.arange(2000.0).reshape(2, 1000)[:, ::2],
    "deep": lambda a: np.arange(120.0).reshape(2, 3, 4, 5).transpose(3, 1, 0, 2)[:, ::-1],
}


@pytest.mark.parametrize("source", ["float64", "float32", "int64"])
@pytest.mark.parametrize("function", ["seen_float32", "seen_rows_of_any", "seen_columns_of_any", "seen_complex128"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(ext, layout, function, source):
    x = LAYOUTS[layout](grid().astype(source))
    found = np.asarray(getattr(ext, function)(x))
    assert found.shape == x.shape
    assert np.array_equal(found, x)


def test_what_fits_is_borrowed_and_not_copied(ext):
    x = grid().astype(np.float32)
    assert ext.placed(x)[0] == x.ctypes.data
    assert ext.placed(x[::2, ::-1])[0] == x[::2, ::-1].ctypes.data
    assert ext.placed_rows(x)[0] == x.ctypes.data
    assert ext.placed_columns(x.T)[0] == x.ctypes.data
    assert ext.placed_rows(x.T)[0] != x.ctypes.data


def test_the_layout_and_the_alignment_asked_for(ext):
    x = grid()
    assert ext.placed(x.T)[1:] == (4, 1, 23)
    assert ext.placed_rows(x.T)[1:] == (4, 1, 23)
    assert ext.placed_columns(x)[1:] == (1, 4, 23)
    assert ext.placed_columns(x.astype(np.float32))[1:] == (1, 4, 23)
    assert ext.placed_aligned(x)[0] % 4096 == 0
    assert ext.placed_aligned(np.ones((4, 4), np.float32)[1:])[0] % 4096 == 0


def test_packed_copies_for_the_order_alone(ext):
    x = grid().astype(np.float32)
    assert ext.placed_packed(x) == (x.ctypes.data, x.shape[1], 23)
    for other in (x.T, x[::2], x[:, ::-1]):
        address, stride, last = ext.placed_packed(other)
        assert address != other.ctypes.data
        assert (stride, last) == (other.shape[1], other[-1, -1])
    for refused in (x.astype(np.float64), x.T.astype(np.float64), np.ones(3, np.float32)):
        with pytest.raises(TypeError):
            ext.placed_packed(refused)


@pytest.mark.parametrize(
    ("call", "x"),
    [
        ("placed", np.ones(3)),
        ("placed", np.ones((1, 2, 3))),
        ("placed_named", np.ones((2, 3))),
        ("signal_sum", np.array(["a"])),
        ("signal_sum", np.array([None])),
        ("signal_sum", [1.0, 2.0]),
        ("signal_sum", 1.0),
        ("seen_floating", np.arange(3)),
        ("seen_rows_of_any", "text"),
    ],
    ids=repr,
)
def test_nothing_but_dtype_and_layout_is_converted(ext, call, x):
    with pytest.raises(TypeError):
        getattr(ext, call)(x)


def test_sets_of_dtypes_are_never_left(ext):
    assert ext.seen_floating(grid().T).dtype.name == "float64"
    assert ext.seen_rows_of_any(np.ones((2, 2), np.int8).T).dtype.name == "int8"
    four = np.ones((2, 4), ml_dtypes.float4_e2m1fn)
    assert np.array_equal(np.asarray(ext.seen_rows_of_any(four.T)), four.T)


def test_an_overload_that_fits_comes_first(ext):
    assert ext.which_fits(np.ones(2, np.float32)) == "float32"
    assert ext.which_fits(np.ones(2, np.int32)) == "int32"
    assert ext.which_fits(np.ones(2, np.int16)) == "converted"
    with pytest.raises(TypeError):
        ext.which_fits(np.ones((2, 2)))


def test_noconvert_forbids_it(ext):
    assert ext.signal_strict(np.ones(3, np.float32)) == 3
    with pytest.raises(TypeError):
        ext.signal_strict(np.ones(3))


def test_the_error_names_what_was_wanted(ext):
    with pytest.raises(isthmus.TensorValueError) as info:
        ext.signal_back(np.ones(3, complex))
    assert str(info.value) == (
        "signal_back(): argument 'signal': expected float32[n] on cpu, got complex128[3] on cpu: complex128 does not "
        "become float32 (numpy.can_cast, 'same_kind')"
    )
    with pytest.raises(isthmus.TensorValueError) as info:
        ext.signal_back(np.array([1, 1e300]))
    assert "the element at (1,) is beyond what float32 holds" in str(info.value)
    with pytest.raises(isthmus.TensorValueError) as info:
        ext.signal_back(np.ones((2, 2)))
    assert "number of dimensions differs" in str(info.value)


def test_the_first_element_that_is_beyond_is_named_by_its_index(ext):
    x = np.ones((3, 4))
    x[2, 1] = x[0, 3] = 1e300
    with pytest.raises(isthmus.TensorValueError, match=r"the element at \(2, 1\) is beyond what float32 holds"):
        ext.columns(x)
    x = np.ones(2000)
    x[[700, 1500, 1501]] = 1e300
    with pytest.raises(isthmus.TensorValueError, match=r"the element at \(700,\) is beyond"):
        ext.signal_back(x)


def test_the_answer_is_in_the_callers_framework(ext, torch):
    found = ext.signal_back(torch.arange(3))
    assert isinstance(found, torch.Tensor)
    assert (found.dtype, found.tolist()) == (torch.float32, [0, 1, 2])
    assert isinstance(ext.signal_back(np.arange(3)), np.ndarray)


def test_jax_and_bfloat16(ext, jax):
    assert ext.signal_sum(jax.numpy.ones(3, "bfloat16")) == 3
    assert ext.signal_sum(jax.numpy.arange(3)) == 3


def test_containers_options_and_fields(ext):
    assert ext.signals_sum([np.ones(2), np.ones(3, np.int8), np.ones(4, np.float32)]) == 9
    assert ext.signal_or(None) == -1
    assert ext.signal_or(np.arange(4)) == 6
    assert ext.wave_sum({"times": np.arange(3), "values": np.ones(3)}) == 4
    with pytest.raises(TypeError):
        ext.signals_sum([np.ones(2), np.ones(3, complex)])


def test_named_sizes_agree_with_those_of_what_is_converted(ext):
    assert ext.signals_dot(np.arange(3), np.ones(3, np.float32)) == 3
    with pytest.raises(isthmus.TensorValueError, match="n is 4 here and 3 in argument 'x'"):
        ext.signals_dot(np.arange(3), np.ones(4, np.float32))


def test_the_copy_is_on_the_list_and_ends_with_the_call(ext):
    entries = []
    isthmus.live.enable()
    try:
        ext.signal_then(np.arange(3.0), lambda: entries.extend(isthmus.live()))
        assert isthmus.live() == []
    finally:
        isthmus.live.disable()
    [entry] = entries
    assert (entry.producer, entry.shape, entry.nbytes) == ("a converted argument", (3,), 12)


def test_the_producers_memory_is_let_go_before_the_call(ext):
    class Memory:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            array = np.arange(3.0)
            self.gone = weakref.ref(array)
            return libraries.export(array, **options)

    x = Memory()
    alive = []
    assert ext.signal_then(x, lambda: alive.append(x.gone())) == 3
    assert alive == [None]


def test_a_capsule_is_whole_again(ext):
    array = np.arange(3.0)
    before = sys.getrefcount(array)
    capsule = libraries.capsule(array, (1, 0))
    assert ext.signal_sum(capsule) == 3
    assert ext.signal_sum(capsule) == 3
    del capsule
    gc.collect()
    assert sys.getrefcount(array) == before


def test_no_reference_is_lost(ext):
    good, bad = np.arange(3.0), np.array([1e300])
    counts = sys.getrefcount(good), sys.getrefcount(bad)
    for _ in range(100):
        ext.signal_sum(good)
        with pytest.raises(TypeError):
            ext.signal_sum(bad)
    assert (sys.getrefcount(good), sys.getrefcount(bad)) == counts


def test_the_docstring_says_so(ext):
    assert "float32[n] on cpu, converted where it differs" in ext.signal_sum.__doc__


def test_memory_of_a_device_is_not_converted(ext):
    def on_cuda(dtype):
        return isthmus.from_blob({"ptr": 0x7F0000000000, "shape": (3,), "dtype": dtype, "device": "cuda:0"}, object())

    assert ext.anywhere(on_cuda("float32")) == ext.anywhere(np.ones(3)) == 3
    with pytest.raises(isthmus.TensorValueError, match="only its framework can convert that; expected host memory"):
        ext.anywhere(on_cuda("float64"))
    with pytest.raises(isthmus.TensorValueError, match="the host must not touch this memory"):
        ext.signal_back(on_cuda("float64"))
