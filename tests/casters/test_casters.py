"""Views, Tensors and replies through nanobind and pybind11: the same functions, bound by each."""

from __future__ import annotations

import gc
import importlib
import re
import sys
from pathlib import Path

import capsules
import libraries
import numpy as np
import processes
import pytest
from casters import CASTERS


def matrix():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_view_reads_in_place(ext):
    x = matrix()
    assert ext.sum(x) == 15
    assert ext.sum(x.T) == 15
    assert ext.sum(x[:, ::-2]) == x[:, ::-2].sum()
    assert ext.sum(x=x) == 15 if "x:" in ext.sum.__doc__.split("->")[0] else ext.positional(x=x) == 15


def test_every_framework_is_taken_as_it_is(ext, torch, jax):
    assert ext.sum(torch.arange(6.0).reshape(2, 3)) == 15
    assert ext.sum(jax.numpy.arange(6.0).reshape(2, 3)) == 15


def test_a_writable_view_writes_in_place(ext, torch):
    x = np.zeros(3, np.float32)
    ext.fill(x, 7)
    assert x.tolist() == [7, 7, 7]
    y = torch.zeros(3)
    ext.fill(y, 7)
    assert y.tolist() == [7, 7, 7]


def test_what_may_not_be_written_is_not_written(ext, jax):
    x = np.zeros(3, np.float32)
    x.flags.writeable = False
    for read_only in (x, jax.numpy.zeros(3)):
        with pytest.raises(TypeError):
            ext.fill(read_only, 7)
    assert x.tolist() == [0, 0, 0]


def test_overloads_are_chosen_by_dtype_and_rank(ext, torch, jax):
    assert ext.which(np.zeros(2, np.float32)) == "float32[:]"
    assert ext.which(np.zeros(2)) == "float64[:]"
    assert ext.which(np.zeros((2, 2), np.float32)) == "float32[:, :]"
    assert ext.which(3) == "int"
    assert ext.which(torch.zeros(2)) == "float32[:]"
    assert ext.which(torch.zeros(2, dtype=torch.float64)) == "float64[:]"
    assert ext.which(jax.numpy.zeros((2, 2))) == "float32[:, :]"


@pytest.mark.parametrize(
    "wrong", ["text", None, [1.0], {"a": 1}, np.zeros(2, np.int8), np.zeros((1, 1, 2), np.float32), object()]
)
def test_without_a_match_there_is_one_type_error(ext, wrong):
    with pytest.raises(TypeError) as raised:
        ext.which(wrong)
    assert "incompatible function arguments" in str(raised.value)
    assert raised.value.__context__ is None


def test_none_is_an_optional_that_is_empty(ext):
    assert ext.count(None) == -1
    assert ext.count(matrix()) == 6
    with pytest.raises(TypeError):
        ext.count("no")


def test_an_optional_view_holds_what_it_borrowed(ext):
    """The producer's export is let go after the call, not before."""
    alive = []

    class Producer:
        def __init__(self):
            self.array = matrix()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **options):
            copy = self.array.copy()  # lives by the capsule alone
            alive.append(copy.ctypes.data)
            return libraries.export(copy, **options)

    assert ext.count(Producer()) == 6
    assert ext.sum(Producer()) == 15
    assert len(alive) == 2


@pytest.mark.parametrize(("name", "size", "says"), [("height", 4, ""), ("width", 5, "width(): ")])
def test_a_named_argument_raises_the_whole_sentence(ext, name, size, says):
    """The argument's name, and the function's where the argument knows it."""
    function = getattr(ext, name)
    assert function(np.zeros((4, 5, 3), np.uint8)) == size
    with pytest.raises(ValueError) as raised:
        function(np.zeros((480, 640, 3), np.float32))
    assert str(raised.value) == (
        f"{says}argument 'image': expected uint8[h, w, 3] C-contiguous on cpu, got float32[480, 640, 3] on cpu: dtype "
        "differs"
    )
    assert raised.value.code == "bad_dtype"
    with pytest.raises(ValueError, match="dimension 2 has size 4, expected 3"):
        function(np.zeros((2, 2, 4), np.uint8))
    with pytest.raises(TypeError, match=re.escape(f"{says}argument 'image': expected a tensor")):
        function("no")


def test_an_error_of_a_producer_comes_through_a_named_argument(ext):
    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            raise KeyError("mine")

    with pytest.raises(BufferError, match="mine") as raised:
        ext.height(Broken())
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_reply_is_in_the_callers_framework(ext, torch, jax):
    x = ext.twice(np.arange(3, dtype=np.float32))
    assert isinstance(x, np.ndarray)
    assert x.tolist() == [0, 2, 4]
    y = ext.twice(torch.arange(3.0))
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [0, 2, 4]
    z = ext.twice(jax.numpy.arange(3.0))
    assert isinstance(z, jax.Array)
    assert z.tolist() == [0, 2, 4]


@pytest.mark.parametrize("package", ["numpy", "torch", "jax"])
def test_a_package_alone_makes_no_reply_in_its_framework(ext, package):
    class Wrapper:
        __module__ = f"{package}.mine"
        memory = np.arange(3, dtype=np.float32)

        def __dlpack__(self, *, max_version=None, **_):
            return self.memory.__dlpack__(max_version=max_version)

        def __dlpack_device__(self):
            return (1, 0)

    reply = type(ext.twice(Wrapper()))
    assert (reply.__module__, reply.__name__) == ("isthmus", "Tensor")


def test_a_tensor_is_every_frameworks(ext, torch):
    x = ext.counting(4)
    assert type(x).__module__ == "isthmus"
    assert np.from_dlpack(x).tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(x).tolist() == [0, 1, 2, 3]
    assert ext.nothing() is None


def test_results_by_policy(ext, torch):
    assert isinstance(ext.counting_numpy(3), np.ndarray)
    assert isinstance(ext.counting_torch(3), torch.Tensor)


def test_a_result_outlives_the_function(ext):
    x = ext.counting_numpy(100_000)
    gc.collect()
    assert x[-1] == 99_999


def test_an_owning_argument_may_be_kept(ext):
    x = matrix()
    count = sys.getrefcount(x)
    ext.keep(x)
    assert sys.getrefcount(x) == count + 1
    back = ext.give_back()
    assert np.shares_memory(np.from_dlpack(back), x)
    del back
    gc.collect()
    assert sys.getrefcount(x) == count


def test_a_borrowed_argument_leaves_no_reference(ext):
    x = matrix()
    count = sys.getrefcount(x)
    for _ in range(10):
        ext.sum(x)
        ext.describe(x)
    assert sys.getrefcount(x) == count
    assert ext.describe(x) == "float32(2, 3)"


def test_a_set_of_dtypes(ext):
    assert ext.any_float(np.full(2, 1.5, np.float32)) == 1.5
    assert ext.any_float(np.full(2, 1.5)) == 1.5
    with pytest.raises(TypeError):
        ext.any_float(np.zeros(2, np.int32))


def test_an_error_thrown_by_the_function_is_translated(ext):
    ext.sum(matrix())
    with pytest.raises(BufferError, match="thrown by the function") as raised:
        ext.fail()
    assert raised.value.code == "needs_copy"
    with pytest.raises(ValueError, match=r"distance\(\): argument 'b': .* d is 4 here and 3 in argument 'a'"):
        ext.distance(matrix(), np.zeros((2, 4), np.float32))


class TestSizesThatAgreeBetweenArguments:
    def test_by_name(self, ext):
        a, b = matrix(), matrix()
        assert ext.distance_checked(a, b) == a[0, 0] - b[0, 0]
        expected = (
            r"distance_checked\(\): argument 'b': expected float32\[m, d\] on cpu: d is 4 here and 3 in argument 'a'"
        )
        with pytest.raises(ValueError, match=expected) as raised:
            ext.distance_checked(a, np.zeros((2, 4), np.float32))
        assert raised.value.code == "bad_layout"

    def test_by_place_and_beside_arguments_without_sizes(self, ext):
        rows, other = np.zeros((5, 3), np.float32), np.zeros((7, 3), np.float32)
        assert ext.mixed(rows, 1.5, None, other, rows) == 3 + 7
        assert ext.mixed(rows, 1.5, rows, other, rows) == 3 + 5 + 7
        with pytest.raises(ValueError, match=r"mixed\(\): argument '3': .* n is 7 here and 5 in argument '1'"):
            ext.mixed(rows, 1.5, other, other, rows)
        with pytest.raises(ValueError, match=r"mixed\(\): argument 'points': .* d is 2 here and 3 in argument '1'"):
            ext.mixed(rows, 1.5, None, np.zeros((7, 2), np.float32), rows)

    def test_of_a_lambda(self, ext):
        a = np.ones((2, 2), np.float32)
        assert ext.checked_lambda(a, a) == 102
        with pytest.raises(ValueError, match=r"checked_lambda\(\): argument '2': .* n is 3 here and 2 in argument '1'"):
            ext.checked_lambda(a, np.ones((3, 2), np.float32))


def test_the_error_of_a_failed_result_arrives(ext, torch):
    for function in (ext.frozen_torch, lambda: ext.frozen_like(torch.zeros(2))):
        with pytest.raises(Exception, match="read-only") as raised:
            function()
        assert "Unable to convert" not in str(raised.value)
        assert not isinstance(raised.value, TypeError)
        assert raised.value.__cause__ is None


def test_agreeing_takes_a_lambda_that_changes_itself(ext):
    a = np.ones((2, 2), np.float32)
    assert [ext.calls(a, a) for _ in range(3)] == [1, 2, 3]


def test_an_optional_argument_is_held_and_compared(ext):
    x = matrix()
    assert ext.count_of(x) == 6
    assert ext.count_of(None) == -1
    out = np.zeros((2, 3), np.float32)
    ext.copy_if(out, x)
    assert out.tolist() == x.tolist()
    ext.copy_if(None, x)
    with pytest.raises(ValueError, match=r"copy_if\(\): argument 'x': .* n is 2 here and 3 in argument 'out'"):
        ext.copy_if(np.zeros((3, 3), np.float32), x)


def test_a_refused_call_takes_no_capsule_of_an_optional_argument(ext):
    isthmus = pytest.importorskip("isthmus")
    out = isthmus.from_dlpack(np.zeros((3, 3), np.float32)).__dlpack__(max_version=(1, 1))
    with pytest.raises(ValueError, match="n is 2 here and 3 in argument 'out'"):
        ext.copy_if(out, matrix())
    assert isthmus.from_dlpack(out).shape == (3, 3)


def test_nor_that_of_an_optional_tensor(ext):
    capsule = np.ones(3, np.float32).__dlpack__()
    with pytest.raises(ValueError, match="d is 2 here and 3"):
        ext.first_if_agreed(capsule, matrix(), np.ones((2, 2), np.float32))
    assert capsules.is_whole(capsule)
    assert ext.first_if_agreed(None, matrix(), matrix()) is None
    assert np.from_dlpack(ext.first_if_agreed(capsule, matrix(), matrix())).tolist() == [1, 1, 1]
    assert not capsules.is_whole(capsule)


def test_agreeing_compares_what_lies_in_containers(ext):
    a = matrix()
    assert ext.disagreement_in(a, a) == ""
    expected = "nested(): argument 'all': expected float32[n, d] on cpu: n is 4 here and 2 in argument 'first'"
    assert ext.disagreement_in(a, np.ones((4, 3), np.float32)) == expected

    def test_the_signature_is_the_function_s_own(self, ext):
        assert (
            "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[m, d] on cpu']"
            in ext.distance_checked.__doc__
        )


def test_signatures_say_what_is_wanted(ext):
    assert "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[n, d] on cpu']" in ext.sum.__doc__
    assert (
        "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'writable float32[:] on cpu']" in ext.fill.__doc__
    )
    assert (
        "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[n, d] on cpu'] | None" in ext.count.__doc__
    )
    assert (
        "typing.Annotated[isthmus.typing.TensorLike[numpy.uint8], 'uint8[h, w, 3] C-contiguous on cpu']"
        in ext.height.__doc__
    )
    assert "-> isthmus.Tensor" in ext.counting.__doc__
    assert "-> numpy.ndarray" in ext.counting_numpy.__doc__
    assert "-> torch.Tensor" in ext.counting_torch.__doc__


def test_a_tensor_is_cast_by_hand(ext):
    x = matrix()
    for given in (x, libraries.capsule(x), libraries.capsule(x, (1, 0))):
        assert ext.cast_later(given).data_ptr == x.ctypes.data
    with pytest.raises((TypeError, RuntimeError)):
        ext.cast_later("text")


def test_the_modules_share_one_tensor_type():
    found = [importlib.import_module(name) for name in CASTERS if importlib.util.find_spec(name)]
    if len(found) < 2:
        pytest.skip("one caster's library alone is installed")
    assert len({type(module.counting(2)) for module in found}) == 1


def capsule(array=None, **how):
    return libraries.capsule(matrix() if array is None else array, **how)


@pytest.mark.parametrize("how", [{"max_version": (1, 0)}, {}], ids=["versioned", "legacy"])
def test_a_capsule_is_whole_when_another_argument_misfits(ext, how):
    """A capsule is taken once: a call that does not take place must leave it to the next overload,
    or to another function."""
    taken = {
        "fill": lambda x: ext.fill(x, "no number"),
        "keep_if": lambda x: ext.keep_if(x, matrix()),
        "describe_with": lambda x: ext.describe_with(x, 3.5),
        "distance_checked": lambda x: ext.distance_checked(x, np.zeros((2, 9), np.float32)),
        "mixed": lambda x: ext.mixed(x, "no number", None, matrix(), matrix()),
        "mixed, sizes": lambda x: ext.mixed(matrix(), 1.0, None, np.zeros((2, 9), np.float32), x),
    }
    for name, call in taken.items():
        x = capsule(np.zeros(4, np.float32) if name == "fill" else None, **how)
        with pytest.raises((TypeError, ValueError)):
            call(x)
        assert capsules.is_whole(x), name
        np.testing.assert_array_equal(
            np.asarray(importlib.import_module("isthmus").from_dlpack(x)).shape, (4,) if name == "fill" else (2, 3)
        )


def test_a_capsule_of_ours_is_whole_too(ext):
    isthmus = importlib.import_module("isthmus")
    t = isthmus.from_dlpack(matrix())
    x = t.__dlpack__(max_version=(1, 0))
    for _ in range(3):
        with pytest.raises((TypeError, ValueError)):
            ext.keep_if(x, matrix())
        assert capsules.is_whole(x)
    ext.keep_if(x, True)
    assert not capsules.is_whole(x)
    kept = ext.give_back()
    assert kept.data_ptr == t.data_ptr


def test_a_capsule_is_taken_by_the_call(ext):
    calls = [
        lambda x: ext.sum(x),
        lambda x: ext.keep_if(x, True),
        lambda x: ext.describe_with(x, "a "),
        lambda x: ext.distance_checked(x, matrix()),
        lambda x: ext.count(x),
    ]
    for call in calls:
        x = capsule()
        call(x)
        assert not capsules.is_whole(x)
        with pytest.raises((TypeError, ValueError, BufferError)):
            call(x)
    ext.give_back()


def test_none_needs_no_header(ext):
    """nanobind takes None for an optional where <nanobind/stl/optional.h> is included;
    for a View wherever it is optional."""
    assert ext.count(None) == -1


def test_what_needs_the_gil_takes_it_or_says_so(ext, torch):
    for x in (np.ones(3, np.float32), torch.ones(3)):
        for _ in range(3):
            assert np.asarray(ext.twice_there_without_gil(x)).tolist() == [2, 2, 2]
        version = getattr(x, "_version", 0)
        assert ext.errors_without_gil(x) == "bad_layout  bad_thread"
        assert getattr(x, "_version", 1) == version + 1


@pytest.mark.parametrize("hidden", ["", "1"], ids=["shims", "no shims"])
def test_a_write_is_announced_where_the_binder_has_released_the_gil(ext, torch, hidden):
    """A call guard stands between the reading of the arguments and the conversion that announces; without torch's shims
    that takes Python."""
    code = f"""
import torch, {ext.__name__} as ext
x, y = torch.zeros(3), torch.zeros(2, 3)
for n in range(20):
    ext.fill_without_gil(x, n)
    ext.copy_rows_without_gil(y, torch.ones(2, 3))
assert x.tolist() == [19, 19, 19] and y.sum() == 6
assert (x._version, y._version) == (20, 20), (x._version, y._version)
w = torch.zeros(3, requires_grad=True)
try:
    ext.fill_without_gil(w, 1)
except (TypeError, ValueError, BufferError):
    assert w._version == 0
else:
    raise SystemExit("a leaf was written")
"""
    processes.run_python(code, Path(ext.__file__).parent, ISTHMUS_NO_TORCH_SHIMS=hidden)
