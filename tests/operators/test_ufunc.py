"""Operators as NumPy's generalised ufuncs."""

from __future__ import annotations

import sysconfig

import numpy as np
import pytest


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[..., :, None, :] - b[..., None, :, :]) ** 2).sum(-1)


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.random((7, 1, 5, 3), dtype=np.float32), rng.random((2, 4, 3), dtype=np.float32)


def test_it_is_a_ufunc_with_the_signature_of_the_named_sizes(ext):
    ufunc = ext.distance.ufunc
    assert type(ufunc) is np.ufunc
    assert (ufunc.__name__, ufunc.signature, ufunc.types) == ("distance", "(n,d),(m,d)->(n,m)", ["ff->f", "dd->d"])
    assert ext.distance.ufunc is ufunc
    assert ext.dot.ufunc.signature == "(n),(n)->()"
    assert ext.weighted.ufunc.signature == "(n),(n)->(),(n)"
    assert ext.shift.ufunc.signature == "(n),(),(),()->(n)"
    assert ext.conjugate.ufunc.signature == "(x_0)->(x_0)"
    assert (ext.cross.ufunc.signature, ext.cross.ufunc.types) == ("(3),(3)->(3)", ["ff->f", "dd->d"])


def test_a_set_has_a_loop_for_each_dtype_that_numpy_has(ext):
    assert sorted(ext.any_float.ufunc.types) == ["d->d", "e->e", "f->f", *["g->g"] * (np.dtype("g").itemsize > 8)]
    assert ext.same.ufunc.types == ["e->e"]


def test_there_is_room_for_so_many_loops(bare):
    ufunc = bare.many_loops.ufunc
    assert ufunc.ntypes == 64
    assert ufunc(np.arange(3.0), np.arange(5, dtype="f4")) == 3


def test_a_dtype_that_numpy_has_not_makes_no_loop(bare):
    with pytest.raises(ValueError, match=r"geo::brain': it is no ufunc: NumPy has none of its dtypes"):
        _ = bare.brain.ufunc


def test_a_signature_has_as_many_sizes_as_its_operands(ext):
    sizes = [",".join(f"{name}_{d}" for d in range(64)) for name in "abcd"]
    assert ext.many_sizes.ufunc.signature == f"({'),('.join(sizes)})->()"


def test_it_broadcasts(ext, points):
    a, b = points
    result = ext.distance.ufunc(a, b)
    assert (result.shape, result.dtype) == ((7, 2, 5, 4), np.float32)
    np.testing.assert_allclose(result, reference(a, b), rtol=1e-5)
    np.testing.assert_allclose(ext.distance.ufunc(a[::-1, :, ::2], b), reference(a[::-1, :, ::2], b), rtol=1e-5)
    assert ext.distance.ufunc(a[:0], b).shape == (0, 2, 5, 4)
    np.testing.assert_allclose(ext.cross.ufunc(np.eye(3), [0.0, 0.0, 1.0]), np.cross(np.eye(3), [0, 0, 1]))


def test_the_loop_is_chosen_by_dtype(ext, points):
    a, b = points
    assert ext.distance.ufunc(a.astype(float), b).dtype == np.float64
    assert ext.distance.ufunc(a.astype(int), b).dtype == np.float64
    with pytest.raises(TypeError, match="distance"):
        ext.distance.ufunc(a.astype(complex), b)


def test_operands_are_not_copied(ext, points):
    a = points[0][0, 0]
    ext.distance.ufunc(a, a)
    assert ext.last_call()[0] == a.ctypes.data
    ext.dot.ufunc(np.ones((1000, 3)), np.ones(3))
    assert ext.last_call()[1] == 0, "NumPy gives the GIL up for all but the smallest loops"
    turned = np.asfortranarray(a)
    ext.distance.ufunc(turned, a)
    assert ext.last_call()[0] == turned.ctypes.data


def test_out_and_axes_are_numpys_own(ext, points):
    a, b = points
    out = np.empty((7, 2, 5, 4), np.float32)
    assert ext.distance.ufunc(a, b, out=out) is out
    np.testing.assert_allclose(out, reference(a, b), rtol=1e-5)
    turned = ext.distance.ufunc(a[:, 0].T, b[0].T, axes=[(1, 0), (1, 0), (0, 1)])
    np.testing.assert_allclose(turned, reference(a[:, 0], b[0]).transpose(1, 2, 0), rtol=1e-5)
    assert ext.dot.ufunc(np.ones((3, 2)), np.ones((3, 2)), axis=0).tolist() == [3, 3]
    assert ext.dot.ufunc(np.ones((2, 3)), np.ones(3), keepdims=True).shape == (2, 1)


def test_out_may_be_an_operand(ext):
    rng = np.random.default_rng(9)
    a, b = rng.random((6, 3, 3)), rng.random((6, 3, 3))
    expected = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
    assert ext.distance.ufunc(a, b, out=a) is a
    np.testing.assert_allclose(a, expected)
    left, right = rng.random(3), rng.random(3)
    expected = np.cross(left, right)
    np.testing.assert_allclose(ext.cross.ufunc(left, right, out=right), expected)


def test_a_refused_ufunc_leaves_nothing(run_script):
    said = run_script(
        """
        import ctypes, isthmus_operators_test_ext as ext
        class Heap(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in
                        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
        libc = ctypes.CDLL(None)
        if not hasattr(libc, "mallinfo2"):
            print("no mallinfo2")
            raise SystemExit
        libc.mallinfo2.restype = Heap
        def refuse():
            try:
                ext.scale.ufunc
            except ValueError:
                pass
        for _ in range(10):
            refuse()
        before = libc.mallinfo2().uordblks
        for _ in range(200):
            refuse()
        print(libc.mallinfo2().uordblks - before)
        """
    ).strip()
    if said == "no mallinfo2":
        pytest.skip("the C library does not count what is allocated")
    assert int(said) < 200 * 1000, "each is larger than that"


def test_scalars_broadcast(ext):
    result = ext.shift.ufunc(np.zeros(2), [[1.0], [2.0]], 3, [True, False])
    assert result.tolist() == [[[-3, -3], [3, 3]], [[-6, -6], [6, 6]]]


def test_mistakes(ext, points):
    a, b = points
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        ext.distance.ufunc(a, b[..., :2])
    with pytest.raises(ValueError, match=r"shift\(\): by is not a number"):
        ext.shift.ufunc(np.zeros((5, 2)), np.nan, 1, False)
    records = np.zeros(4, dtype=[("c", "c8"), ("f", "f4")])
    with pytest.raises(
        ValueError, match=r"conjugate\(\): argument 'x': found a step of 12 bytes; expected a multiple of the 8"
    ):
        ext.conjugate.ufunc(records["c"])
    assert ext.conjugate.ufunc(np.array([1 + 2j], np.complex64)) == 1 - 2j


TAKEN = """
#include <isthmus/op.h>
using namespace isthmus;
void taken(View<const one_of<float, double>, 1, sizes<"n">> x, View<const one_of<std::int32_t, std::int64_t>, 1,
           sizes<"m">> places, Out<one_of<float, double>, 1, sizes<"m">> y) {
    x.visit([&](auto from) {
        const auto to = y.as<typename decltype(from)::value_type>().value();
        places.visit([&](auto place) {
            for (std::int64_t i = 0; i < place.extent(0); ++i) to(i) = from(place(i));
        });
    });
}
"""


def test_sets_without_a_common_dtype():
    isthmus = pytest.importorskip("isthmus")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("no stable ABI")
    taken = isthmus.load_inline(TAKEN, operators={"geo_sets::taken": ["x", "places"]}, cflags=["-O0"]).taken
    assert sorted(taken.ufunc.types) == ["di->d", "dl->d", "fi->f", "fl->f"]
    x, places = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([2, 0])
    result = taken.ufunc(x, places)
    assert (result.dtype, result.tolist()) == (np.float32, [[3, 1], [6, 4]])
    assert taken.ufunc(x.astype(np.float64), places.astype(np.int32)).tolist() == [[3, 1], [6, 4]]


NONE = {
    "scale": "argument 'mode' is a string",
    "twice": "expected is a fixed rank",
    "add_to": "it has no result",
    "first": "the size k is that of an integer argument",
}


@pytest.mark.parametrize("name", NONE)
def test_what_cannot_be_a_ufunc_says_why(ext, name):
    with pytest.raises(ValueError, match=f"operator 'geo.*::{name}': it is no ufunc: .*{NONE[name]}"):
        _ = getattr(ext, name).ufunc


def test_without_numpy_there_is_none(run_script):
    said = run_script(
        """
        import sys, isthmus_operators_test_ext as ext
        sys.modules["numpy"] = None
        try:
            ext.distance.ufunc
        except ImportError:
            print("ImportError")
        """
    )
    assert said == "ImportError\n"


def test_reading_it_imports_no_compiler(run_script):
    said = run_script(
        """
        import sys, isthmus_operators_test_ext as ext
        ext.distance.ufunc
        print({"numpy", "torch", "jax", "isthmus"} & set(sys.modules))
        """
    )
    assert said == "{'numpy'}\n"
