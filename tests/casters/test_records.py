"""Records, dates and fixed strings: what NumPy alone has, as C++ structs, std::chrono and arrays of characters."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import isthmus

POINT = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f8")])
PACKED = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("ring", "u2"), ("time", "f8")])
LAS = np.dtype(
    [
        ("x", "i4"),
        ("y", "i4"),
        ("z", "i4"),
        ("intensity", "u2"),
        ("returns", "u1"),
        ("flags", "u1"),
        ("classification", "u1"),
        ("angle", "i1"),
        ("user", "u1"),
        ("source", "u2"),
        ("time", "f8"),
        ("rest", "u1", 5),
    ]
)
EVENT = np.dtype(
    [
        ("at", "M8[ns]"),
        ("took", "m8[ms]"),
        ("code", "S8"),
        ("name", "U8"),
        ("where", POINT),
        ("matrix", "f4", (2, 3)),
        ("good", "?"),
    ],
    align=True,
)
SPELLED = "Point(x: float32, y: float32, z: float64)"


@pytest.fixture
def points():
    return np.array([(1, 2, 3), (4, 5, 6)], POINT)


def with_field(name, dtype):
    return np.zeros(2, [(n, dtype if n == name else POINT[n]) for n in POINT.names])


def test_packed_and_aligned_records(ext, points):
    assert ext.sum_points(points) == 21
    assert ext.sum_points(points[::-1]) == 21
    assert ext.sum_points(points.view(np.recarray)) == 21
    assert ext.sum_points(np.zeros(0, POINT)) == 0
    assert ext.count_grid(np.zeros((2, 3), POINT)) == 6
    packed = np.zeros(3, PACKED)
    packed["x"], packed["ring"], packed["time"] = 1, 2, 0.5
    assert (packed.strides, ext.sum_packed(packed), ext.sum_packed(packed[::2])) == ((22,), 10.5, 7)
    las = np.zeros(4, LAS)
    las["x"], las["source"], las["rest"] = 10, 1, 2
    assert (las.strides, ext.sum_las(las)) == ((34,), 52)


def test_a_step_that_nobody_takes_may_be_any(ext, points):
    for few in (points[:1], points[:0]):
        assert ext.sum_points(as_strided(few, strides=(7,))) == 6 * len(few)
    with pytest.raises((TypeError, ValueError)):
        ext.sum_points(as_strided(points[:2], strides=(7,)))


def test_written_in_place(ext, points):
    ext.move_points(points, 10)
    assert points["z"].tolist() == [13, 16]
    points.flags.writeable = False
    assert ext.sum_points(points) == 21 + 20
    with pytest.raises((TypeError, ValueError), match=re.escape("move_points")):
        ext.move_points(points, 1)


def test_order_of_the_fields_and_other_ways_to_say_the_same(ext):
    by_offset = np.dtype({"names": ["z", "y", "x"], "formats": ["f8", "f4", "f4"], "offsets": [8, 4, 0]})
    assert ext.sum_points(np.array([(3, 2, 1)], by_offset)) == 6
    titled = np.dtype([(("of the left", "x"), "f4"), ("y", "f4"), ("z", "f8")])
    assert ext.sum_points(np.ones(2, titled)) == 6


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros(2, "f8"), f"expected an array of {SPELLED}: the dtype is float64, expected {SPELLED}"),
        (np.zeros(2, "V16"), f"the dtype is |V16, expected {SPELLED}"),
        (with_field("y", "f8"), "field 'y' is float64, expected float32"),
        (with_field("y", "i4"), "field 'y' is int32, expected float32"),
        (with_field("y", ">f4"), "field 'y' is >f4, which is not in this machine's byte order"),
        (with_field("z", "O"), "field 'z' is object, expected float64"),
        (with_field("x", ("f4", 3)), "field 'x' is ('<f4', (3,)), expected float32"),
        (np.zeros(2, [("x", "f4"), ("y", "f4")]), "there is no field 'z'"),
        (np.zeros(2, [("x", "f4"), ("y", "f4"), ("z", "f8"), ("w", "f8")]), "field 'w' is not a member of Point"),
        (
            np.zeros(2, [("y", "f4"), ("x", "f4"), ("z", "f8")]),
            "field 'x' begins at byte 4, expected 0; numpy.dtype(…, align=True) lays fields out as C++ does",
        ),
        (
            np.zeros(2, {"names": POINT.names, "formats": ["f4", "f4", "f8"], "itemsize": 24}),
            "an element has 24 bytes, expected 16; numpy.dtype(…, align=True) pads a record as C++ does",
        ),
        (np.zeros((2, 2), POINT), f"expected {SPELLED}[:] on cpu, got [2, 2] on cpu: number of dimensions differs"),
        (np.ma.zeros(2, POINT), f"expected a numpy.ndarray of {SPELLED}, got numpy.ma.MaskedArray"),
        (memoryview(np.zeros(2, POINT)), f"expected a numpy.ndarray of {SPELLED}, got memoryview"),
        ([(1, 2, 3)], f"expected a numpy.ndarray of {SPELLED}, got list: NumPy alone has such elements"),
        (np.zeros(2, POINT)[0], f"expected a numpy.ndarray of {SPELLED}, got numpy.void"),
    ],
    ids=lambda case: case if isinstance(case, str) else None,
)
def test_what_differs_is_named(ext, array, why):
    before = sys.getrefcount(array)
    with pytest.raises((TypeError, ValueError)) as raised:
        ext.count_named(array)
    assert str(raised.value).startswith("count(): argument 'points': ")
    assert why in str(raised.value)
    assert "wanted" not in str(raised.value)
    del raised
    assert sys.getrefcount(array) == before


def test_the_first_dimension_of_a_part_of_a_record(ext):
    outer = np.zeros(3, [("where", POINT), ("id", "u2")])
    with pytest.raises(isthmus.Error, match="no multiple of the 16-byte element; copy it first"):
        ext.count_named(outer["where"])
    assert ext.count_named(outer["where"].copy()) == 3


def test_elements_that_are_not_aligned(ext):
    shifted = np.frombuffer(bytes(1 + 2 * POINT.itemsize), np.uint8)[1:].view(POINT)
    with pytest.raises(ValueError, match=r"argument 'points': .*not aligned for this type"):
        ext.count_named(shifted)
    assert ext.count_named(shifted.copy()) == 2


def test_a_field_of_a_packed_record(ext):
    """The step is no multiple of the element: refused, with a remedy that works."""
    packed = np.zeros(3, PACKED)
    packed["y"] = 7
    with pytest.raises(isthmus.Error, match=r"the stride of dimension 0 is 22 bytes.*copy it first"):
        isthmus.from_dlpack(packed["y"])
    assert ext.first_of_field(packed["y"].copy()) == 7
    assert ext.first_of_field(np.ones(3, POINT)["y"]) == 1  # a step of 16 bytes


def test_optional_container_and_overloads(ext, points):
    assert (ext.count_optional(None), ext.count_optional(points)) == (-1, 2)
    assert ext.sum_batches([points, points[:1]]) == 27
    assert ext.which_record(points) == "Point"
    assert ext.which_record(np.zeros(2, PACKED)) == "Packed"
    assert ext.which_record(np.zeros(2, "f4")) == "float32"
    with pytest.raises(TypeError, match="which_record"):
        ext.which_record(np.zeros(2, LAS))


def test_results(ext):
    made = ext.make_points(3)
    assert (type(made), made.dtype) == (np.ndarray, POINT)
    assert made.tolist() == [(0, 0, 0), (1, 2, 3), (2, 4, 6)]
    assert made.flags.writeable
    assert made.base is not None
    assert ext.sum_points(made) == 18
    assert (ext.make_packed(2).dtype, ext.make_packed(2).shape) == (PACKED, (1, 2))
    assert ext.make_points(0).shape == (0,)
    assert ext.no_points() is None
    x = ext.make_points(1000)["x"]
    assert x[-1] == 999  # the memory lives as long as the last view


def test_every_kind_of_field(ext):
    events = np.zeros(2, EVENT)
    events["at"], events["took"] = np.datetime64("2026-01-02T03:04:05.6", "ns"), np.timedelta64(7, "ms")
    events["code"], events["name"], events["good"] = b"abc", "naïve", True
    events["where"]["z"], events["matrix"] = 2.5, np.arange(6).reshape(2, 3)
    copied = ext.copy_events(events)
    assert copied.dtype == EVENT
    assert copied.tobytes() == events.tobytes()
    for field, other in (
        ("at", "M8[us]"),
        ("took", "m8[s]"),
        ("code", "S7"),
        ("name", "U9"),
        ("matrix", ("f4", (3, 2))),
    ):
        dtype = np.dtype([(n, other if n == field else EVENT[n]) for n in EVENT.names], align=True)
        with pytest.raises((TypeError, ValueError), match="copy_events"):
            ext.copy_events(np.zeros(2, dtype))


def test_dates(ext):
    times = np.array(["2026-03-01T00:00", "NaT", "2026-03-02T12:00"], "M8[ns]")
    hours = np.array([1, 2, 3], "m8[h]")
    made = ext.later(times, hours)
    assert made.dtype == np.dtype("M8[ns]")
    assert str(made) == str(times + hours.astype("m8[ns]"))
    assert ext.since(times[::2]).tolist() == (times[::2] - times[0]).tolist()
    for wrong in ("M8[us]", "M8", "M8[10ns]", "m8[ns]", ">M8[ns]", "i8"):
        with pytest.raises(TypeError, match="since"):
            ext.since(np.zeros(2, "i8").astype(wrong))


def test_fixed_strings(ext):
    assert ext.joined(np.array([b"ab", b"12345678"], "S8")) == "ab|12345678|"
    assert ext.reversed_names(np.array(["abc", "ünï", "𝄞x"], "U8")).tolist() == ["cba", "ïnü", "x𝄞"]
    for wrong in (np.zeros(2, "S7"), np.zeros(2, "U8"), np.zeros((2, 8), "i1")):
        with pytest.raises(TypeError, match="joined"):
            ext.joined(wrong)
    with pytest.raises(TypeError, match="reversed_names"):
        ext.reversed_names(np.zeros(2, ">U8"))


def test_signatures(ext):
    doc = ext.sum_points.__doc__
    assert f"typing.Annotated[isthmus.typing.TensorLike, '{SPELLED}[:] on cpu']" in doc
    assert "numpy.ndarray" in ext.make_points.__doc__
    assert "datetime64[ns][:]" in ext.later.__doc__
    assert "timedelta64[h][:]" in ext.later.__doc__
    assert "S8[:]" in ext.joined.__doc__
    assert "U8[:]" in ext.reversed_names.__doc__


def test_nothing_leaks(ext, points):
    def references():
        return sys.getrefcount(POINT), sys.getrefcount(points), sys.getrefcount(points.dtype)

    def rounds():
        for _ in range(50):
            ext.sum_points(points)
            ext.make_points(2)
            for wrong in (with_field("y", "f8"), points["x"]):
                with pytest.raises(TypeError):
                    ext.sum_points(wrong)

    rounds()
    before = references()
    rounds()
    assert references() == before
