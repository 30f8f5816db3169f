"""Owned<V>: a typed argument that is stored: it lives as long as it is kept, and is checked as the view alone is."""

from __future__ import annotations

import gc
import sys
import weakref

import capsules
import numpy as np
import pytest

import isthmus

POINT = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f8")])


@pytest.fixture(autouse=True)
def _nothing_is_kept(ext):
    yield
    ext.own_drop()


def row(dtype=np.float32):
    return np.arange(1, 4, dtype=dtype)


#: function -> what it is given beside arrays, for those that keep all of it in own_batch_sum()
KEPT = {
    "own_maybe": lambda make: make(),
    "own_batch": lambda make: [make(), make()],
    "own_by_name": lambda make: {"a": make(), "b": make()},
    "own_one_of": lambda make: make(),
    "own_named_batch": lambda make: [make(), make()],
}


class Producer:
    """Its memory lives by the capsule alone."""

    def __init__(self, make):
        self.make = make

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return self.make().__dlpack__(max_version=(1, 0))


class TestIsStored:
    def test_beyond_the_call(self, ext):
        x = row()
        gone = weakref.ref(x)
        ext.own_row(x)
        x *= 2
        del x
        gc.collect()
        assert gone() is not None
        assert ext.own_sum() == 12
        ext.own_drop()
        assert gone() is None
        assert ext.own_sum() == 0

    def test_until_it_ends_on_a_thread_without_the_gil(self, ext):
        arrays = [row(), row(), np.zeros(2, POINT)]
        gone = [weakref.ref(x) for x in arrays]
        ext.own_row(arrays[0])
        ext.own_batch([arrays[1]])
        ext.own_points(arrays[2])
        del arrays
        gc.collect()
        assert all(ref() is not None for ref in gone)
        ext.own_drop_elsewhere()
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3

    @pytest.mark.parametrize("name", KEPT)
    def test_in_a_container(self, ext, name):
        refs = []

        def make():
            x = row()
            refs.append(weakref.ref(x))
            return x

        getattr(ext, name)(KEPT[name](make))
        gc.collect()
        assert all(ref() is not None for ref in refs)
        assert ext.own_batch_sum() == 6 * len(refs)
        ext.own_drop()
        gc.collect()
        assert all(ref() is None for ref in refs)

    def test_of_every_framework(self, ext, torch, jax):
        for x in (torch.arange(1.0, 4), jax.numpy.arange(1.0, 4), memoryview(row()), Producer(row)):
            ext.own_row(x)
            del x
            gc.collect()
            assert ext.own_sum() == 6

    def test_a_view_of_any_rank_keeps_its_sizes(self, ext):
        ext.own_any(np.zeros((2, 3, 4), np.float32))
        gc.collect()
        assert ext.own_sizes() == "(2, 3, 4)"

    def test_references_are_even(self, ext):
        x = row()
        before = sys.getrefcount(x)
        for _ in range(3):
            ext.own_row(x)
            assert sys.getrefcount(x) == before + 1
        ext.own_batch([x, x])
        assert sys.getrefcount(x) == before + 3
        ext.own_drop()
        assert sys.getrefcount(x) == before

    def test_copies_share_and_moves_empty(self, ext):
        x = row()
        assert np.shares_memory(np.asarray(ext.own_copied(x)), x)
        assert tuple(ext.own_moved_from(x)) == (0, False)
        assert ext.own_made(x) == "3"
        with pytest.raises(ValueError, match=r"expected float32\[:\] on cpu, got float64\[3\]"):
            ext.own_made(row(float))


class TestWrites:
    def test_reach_the_caller_after_the_call(self, ext, torch):
        for x in (np.zeros(3, np.float32), torch.zeros(3)):
            ext.own_written(x)
            ext.own_write(7)
            assert x.tolist() == [7, 7, 7]

    def test_are_announced_once(self, ext, torch):
        x = torch.zeros(3)
        ext.own_written(x)
        assert x._version == 1
        ext.own_row(x)
        assert x._version == 1
        with pytest.raises((TypeError, BufferError), match="grad"):
            ext.own_written(torch.zeros(3, requires_grad=True))

    def test_read_only_memory_is_refused(self, ext, jax):
        x = row()
        x.flags.writeable = False
        for read_only in (x, jax.numpy.zeros(3)):
            before = sys.getrefcount(read_only)
            with pytest.raises(TypeError):
                ext.own_written(read_only)
            ext.own_row(read_only)
            ext.own_drop()
            assert sys.getrefcount(read_only) == before

    def test_distinct_is_compared(self, ext):
        x = np.arange(6, dtype=np.float32)
        ext.own_apart(x[:3], x[3:])
        assert x.tolist() == [6, 8, 10, 3, 4, 5]
        with pytest.raises(ValueError, match=r"own_apart\(\): argument 'out': shares memory with argument 'x'"):
            ext.own_apart(x[:3], x[2:5])


class TestIsChecked:
    @pytest.mark.parametrize("wrong", ["text", None, [1.0], row(float), np.zeros((2, 2), np.float32), 3, object()])
    def test_as_a_view_is(self, ext, wrong):
        before = sys.getrefcount(wrong)
        for _ in range(3):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                ext.own_row(wrong)
            with pytest.raises(TypeError):
                ext.own_batch([row(), wrong])
        assert sys.getrefcount(wrong) == before

    def test_overloads_are_chosen_by_dtype(self, ext):
        assert ext.own_which(row()) == 6
        assert ext.own_which(row(float)) == -6
        assert ext.own_which([1, 2]) == 103
        assert ext.own_strict(row()) == 6
        assert ext.own_ends(row()) == 1
        assert ext.own_ends(row(float)) == 3
        x = row(int)
        before = sys.getrefcount(x)
        with pytest.raises(TypeError) as info:
            ext.own_ends(x)
        assert str(info.value).splitlines() == [
            "own_ends(): no overload takes these arguments:",
            "  argument 'x': expected float32[:] on cpu, got int64[3] on cpu: dtype differs",
            "  argument 'x': expected float64[:] on cpu, got int64[3] on cpu: dtype differs",
        ]
        del info
        gc.collect()
        assert sys.getrefcount(x) == before

    def test_errors_name_the_argument(self, ext):
        with pytest.raises(ValueError, match=r"own_named\(\): argument 'x': expected float32\[n\] on cpu"):
            ext.own_named(np.zeros((2, 2), np.float32))
        with pytest.raises(ValueError, match=r"own_named\(\): argument 'x': .*complex128.* does not become float32"):
            ext.own_named(np.zeros(2, complex))
        with pytest.raises(ValueError, match=r"own_named_batch\(\): argument 'batch', element 1: expected float32"):
            ext.own_named_batch([row(), row(float)])

    def test_named_sizes_agree(self, ext):
        a, b = np.ones((2, 3), np.float32), np.zeros((4, 3), np.float32)
        assert ext.own_distance(a, None) == 1
        with pytest.raises(ValueError, match=r"own_distance\(\): argument 'b': .*n is 4 here and 2 in argument 'a'"):
            ext.own_distance(a, b)
        capsules_of = [x.__dlpack__() for x in (a, b)]
        with pytest.raises(ValueError, match="n is 4 here"):
            ext.own_distance(*capsules_of)
        assert all(capsules.is_whole(x) for x in capsules_of)
        assert ext.own_distance(capsules_of[0], np.zeros((2, 3), np.float32).__dlpack__()) == 1


class TestCapsules:
    def test_are_taken_once(self, ext):
        capsule = row().__dlpack__()
        ext.own_row(capsule)
        assert not capsules.is_whole(capsule)
        del capsule
        assert ext.own_sum() == 6

    def test_are_whole_when_the_call_is_refused(self, ext):
        capsule = row().__dlpack__()
        for take, wrap in ((ext.own_row_if, lambda x: x), (ext.own_batch_if, lambda x: [x])):
            with pytest.raises(TypeError):
                take(wrap(capsule), "no truth")
            assert capsules.is_whole(capsule)
        with pytest.raises(TypeError):
            ext.own_batch([capsule, "text"])
        with pytest.raises(TypeError):
            ext.own_written(row(float).__dlpack__())
        assert capsules.is_whole(capsule)
        assert np.from_dlpack(ext.own_row_if(capsule, True)).tolist() == [1, 2, 3]
        assert not capsules.is_whole(capsule)

    def test_are_whole_after_a_conversion(self, ext):
        capsule = np.ones((2, 2)).__dlpack__()
        ext.own_converted(capsule)
        assert capsules.is_whole(capsule)


class TestConverts:
    def test_a_copy_is_kept(self, ext):
        x = np.arange(6.0).reshape(2, 3)
        back = np.asarray(ext.own_converted(x))
        assert (back.dtype, back.tolist()) == (np.float32, x.tolist())
        assert not np.shares_memory(back, x)
        y = x.astype(np.float32)
        assert np.shares_memory(np.asarray(ext.own_converted(y)), y)

    def test_a_list_is_kept(self, ext):
        back = np.asarray(ext.own_like([1, 2.5, np.float32(3)]))
        assert (back.dtype, back.tolist()) == (np.float64, [1, 2.5, 3])
        assert np.asarray(ext.own_like((1, 2))).tolist() == [1, 2]
        with pytest.raises(TypeError):
            ext.own_like(["1"])


class TestAsAResult:
    def test_it_is_the_tensor(self, ext, torch):
        x = row()
        assert type(ext.own_maybe(x)) is isthmus.Tensor
        assert ext.own_maybe(None) is None
        assert np.shares_memory(np.asarray(ext.own_row_if(x, True)), x)
        assert [np.shares_memory(np.asarray(t), x) for t in ext.own_batch([x, x])] == [True, True]
        assert np.shares_memory(np.asarray(ext.own_by_name({"a": x})["a"]), x)
        tensor, number = ext.own_both((x, 0.5))
        assert (type(tensor), number) == (isthmus.Tensor, 0.5)
        assert np.shares_memory(np.asarray(ext.own_cast(x)), x)
        assert np.shares_memory(np.asarray(ext.own_without_gil(x)), x)
        y = torch.arange(3.0)
        assert ext.own_row_if(y, True).to("torch") is y
        assert type(ext.own_named(y)) is torch.Tensor
        assert np.asarray(ext.own_named(row(int))).tolist() == [2, 4, 6]

    def test_it_follows_the_default_result(self, ext, torch):
        y = torch.arange(3.0)
        ext.set_results("reply")
        try:
            assert ext.own_row_if(y, True) is y
            assert type(ext.own_row_if(row(), True)) is np.ndarray
        finally:
            ext.set_results("tensor")


class TestRecords:
    def test_are_kept_and_returned(self, ext):
        x = np.array([(1, 2, 3), (4, 5, 6)], POINT)
        gone = weakref.ref(x)
        back = ext.own_points(x)
        assert (type(back), back.dtype) == (np.ndarray, POINT)
        assert np.shares_memory(back, x)
        del x, back
        gc.collect()
        assert ext.own_points_sum() == 21
        ext.own_drop()
        assert gone() is None

    def test_may_be_written_or_not(self, ext):
        x = np.zeros(2, POINT)
        ext.own_points_written(x)
        assert x["z"].tolist() == [7, 0]
        x.flags.writeable = False
        before = sys.getrefcount(x)
        with pytest.raises(TypeError):
            ext.own_points_written(x)
        with pytest.raises(TypeError):
            ext.own_points(np.zeros(2))
        assert np.asarray(ext.own_points(x)).flags.writeable is False
        ext.own_drop()
        gc.collect()
        assert sys.getrefcount(x) == before


class TestFields:
    def test_a_struct_is_kept(self, ext):
        points, marks = np.ones((2, 3)), np.zeros(1, POINT)
        refs = [weakref.ref(points), weakref.ref(marks)]
        back = ext.own_mesh({"points": points, "kinds": [3, 4], "marks": marks})
        assert np.shares_memory(np.asarray(back["points"]), points)
        assert np.asarray(back["kinds"]).tolist() == [3, 4]
        assert back["marks"].dtype == POINT
        del points, marks, back
        gc.collect()
        assert all(ref() is not None for ref in refs)
        assert ext.own_mesh_sum() == 7
        gc.collect()
        assert [ref() for ref in refs] == [None, None]

    def test_named_sizes_agree_within_it(self, ext):
        points = np.ones((2, 3))
        before = sys.getrefcount(points)
        with pytest.raises(ValueError, match=r"own_mesh\(\): argument 'mesh.kinds': .*n is 3 here and 2 in"):
            ext.own_mesh({"points": points, "kinds": [3, 4, 5], "marks": None})
        gc.collect()
        assert sys.getrefcount(points) == before
        capsule = points.__dlpack__()
        with pytest.raises(ValueError, match="n is 3 here"):
            ext.own_mesh({"points": capsule, "kinds": [3, 4, 5], "marks": None})
        assert capsules.is_whole(capsule)


def test_the_signature_is_that_of_the_view(ext):
    said = ext.own_row_if.__doc__
    assert "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[:] on cpu']" in said
    assert "isthmus.typing.ArrayLike" in ext.own_like.__doc__
    assert "converted where it differs" in ext.own_converted.__doc__
    assert "'writable float32[:] on cpu'" in ext.own_written.__doc__
    assert "points: float64[n, 3] on cpu; kinds: int64[n] on cpu" in ext.own_mesh.__doc__
    if "213" not in ext.__name__:
        assert "-> isthmus.Tensor" in said
        assert "-> numpy.ndarray" in ext.own_points.__doc__
