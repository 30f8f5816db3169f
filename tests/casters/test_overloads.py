"""overloads<…>: where no overload takes a call, the TypeError says of each why not."""

from __future__ import annotations

import gc
import sys

import capsules
import interrupts
import libraries
import numpy as np
import pytest

ONES = np.ones(3, np.float32)


def refused(call, *args, **keywords) -> list[str]:
    with pytest.raises(TypeError) as info:
        call(*args, **keywords)
    return str(info.value).splitlines()


def test_what_fits_is_taken(ext):
    assert ext.totals(ONES) == ext.totals(x=ONES, power=2) == "float32"
    assert ext.totals(ONES.astype(float), 2.0) == "float64"
    assert ext.total_or_text("text", 1.0) == "text"
    assert ext.rows_of(np.ones((4, 2), np.float32), 1) == "4"
    assert ext.unnamed(ONES, ONES) == "kept"
    assert ext.unnamed(ONES, None) == "written"
    assert ext.unnamed(np.ones((2, 2)).astype(int), 1.0) == "converted"


def test_every_overload_says_why_not(ext):
    assert refused(ext.totals, np.arange(3)) == [
        "totals(): no overload takes these arguments:",
        "  argument 'x': expected float32[n] on cpu, got int64[3] on cpu: dtype differs",
        "  argument 'x': expected float64[n] on cpu, got int64[3] on cpu: dtype differs",
    ]
    assert refused(ext.totals, x=np.ones((2, 2), np.float32), power=1)[1:] == [
        "  argument 'x': expected float32[n] on cpu, got float32[2, 2] on cpu: number of dimensions differs",
        "  argument 'x': expected float64[n] on cpu, got float32[2, 2] on cpu: dtype differs",
    ]


def test_what_is_no_tensor_is_told_once(ext):
    (line,) = refused(ext.totals, 3.0)[1:]
    assert line.startswith("  argument 'x': ")
    assert "float" in line


def test_another_argument(ext):
    assert refused(ext.totals, ONES, "much")[1:] == [
        "  another argument, which is no tensor, does not fit",
        "  argument 'x': expected float64[n] on cpu, got float32[3] on cpu: dtype differs",
    ]
    assert refused(ext.total_or_text, np.arange(2), 1.0)[1:] == [
        "  argument 'x': expected float32[n] on cpu, got int64[2] on cpu: dtype differs",
        "  another argument, which is no tensor, does not fit",
    ]


@pytest.mark.parametrize(
    ("args", "keywords", "line"),
    [
        ((), {}, "  argument 'x' is missing"),
        ((ONES,), {}, "  argument 'power' is missing"),
        ((ONES, 1.0, 2), {}, "  takes 2 arguments, got 3"),
        ((ONES,), {"strength": 1.0}, "  argument 'power' is missing"),
    ],
)
def test_arguments_that_are_missing_or_too_many(ext, args, keywords, line):
    assert refused(ext.total_or_text, *args, **keywords)[1] == line


def test_without_names(ext):
    frozen = ONES.copy()
    frozen.flags.writeable = False
    lines = refused(ext.unnamed, frozen, None)[1:]
    assert lines[0].startswith("  argument 'arg1': ")
    assert lines[1] == ("  argument 'arg0': the memory of this numpy.ndarray is read-only; expected writable memory")
    assert lines[2].startswith("  argument 'arg0': expected int8[:, :] on cpu, got read-only float32[3] on cpu: ")
    assert refused(ext.unnamed, np.ones((2, 2)), 1.0)[-1].endswith("(numpy.can_cast, 'same_kind')")


def test_annotations_without_a_name(ext):
    assert ext.annotated(ONES, None) == "written"
    assert refused(ext.annotated, np.arange(3), None)[1:] == [
        refused(ext.unnamed, np.arange(3), None)[1],
        "  argument 'arg0': expected writable float32[:] on cpu, got int64[3] on cpu: dtype differs",
    ]
    assert refused(ext.annotated, ONES)[1:] == ["  argument 'arg1' is missing"]


def test_methods_and_lambdas(ext):
    scale = ext.Scale()
    assert scale.apply(np.ones((2, 2), np.float32)) == "rows"
    assert scale.apply(ONES.copy()) == "filled"
    assert scale.apply(np.ones((2, 2))) == "outside"
    assert refused(scale.apply, x=np.arange(3))[1:] == [
        "  argument 'x': expected float32[:, :] on cpu, got int64[3] on cpu: dtype differs",
        "  argument 'x': expected writable float32[:] on cpu, got int64[3] on cpu: dtype differs",
        "  argument 'x': expected float64[:, :] on cpu, got int64[3] on cpu: dtype differs",
    ]
    assert refused(ext.rows_of, ONES, 1)[1:] == [
        "  argument 'rows': expected float32[:, :] on cpu, got float32[3] on cpu: number of dimensions differs"
    ]


def test_torchs_own_advice(ext, torch):
    lines = refused(ext.totals, torch.conj(torch.ones(2, dtype=torch.complex64)))
    assert any(".resolve_conj()" in line for line in lines)


@pytest.mark.parametrize("raised", interrupts.KINDS)
def test_what_passes_through_does(ext, raised):
    class Producer:
        asked = 0

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            Producer.asked += 1
            raise raised if Producer.asked > asked else BufferError("not yet")

    for asked in range(4):
        Producer.asked = 0
        try:
            ext.unnamed(Producer(), Producer())
        except raised:
            pass
        except TypeError:
            assert Producer.asked <= asked


def test_nothing_is_taken_and_no_reference_lost(ext):
    array = np.arange(3)
    count = sys.getrefcount(array)
    capsule = libraries.capsule(array, (1, 0))
    for _ in range(10):
        refused(ext.totals, capsule)
        refused(ext.unnamed, capsule, None)
        refused(ext.unnamed, ONES, capsule, 3)
    assert capsules.is_whole(capsule)
    del capsule
    gc.collect()
    assert sys.getrefcount(array) == count


def test_a_checker_does_not_see_it():
    ext = pytest.importorskip("isthmus_nanobind_test_ext")
    assert "totals(*args: typing.Never, **kwargs: typing.Never) -> typing.Never" in ext.totals.__doc__
