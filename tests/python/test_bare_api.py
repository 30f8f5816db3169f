"""def() and Arguments: dtypes, devices, Results and containers, and tensor_protocol() of a class of the bare API."""

from __future__ import annotations

import gc
import sys
import weakref

import capsules
import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")
ROW = np.arange(3, dtype=np.float32)


def test_dtypes_and_devices():
    assert ext.dtype_back("bfloat16") == isthmus.DType("bfloat16")
    assert type(ext.dtype_back(np.dtype("int8"), "cuda:1")) is isthmus.DType
    assert ext.device_back((2, 1)) == "cuda:1"
    with pytest.raises(ValueError, match=r"dtype_back\(\): argument 'dtype': found 'float33'; expected a name such as"):
        ext.dtype_back("float33")
    with pytest.raises(
        TypeError, match=r"device_back\(\): argument 'device': found 3; expected a name such as 'cuda:0'"
    ):
        ext.device_back(3)


def test_a_result_of_nothing():
    assert ext.result_of_nothing(True) is None
    with pytest.raises(BufferError, match="not this time"):
        ext.result_of_nothing(False)


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (("x", 1), TypeError, "scaled(): argument 'count': expected an integer, got str"),
        ((1, "x"), TypeError, "scaled(): argument 'factor': expected a number, got str"),
        ((1.5, 1), TypeError, "scaled(): argument 'count': expected an integer, got float"),
        ((2**40, 1), OverflowError, "scaled(): argument 'count': 1099511627776 does not fit"),
        ((2**80, 1), OverflowError, "scaled(): argument 'count': 1208925819614629174706176 does not fit"),
    ],
)
def test_numbers_of_other_widths(arguments, kind, said):
    assert ext.scaled(-3, 0.5) == -1.5
    with pytest.raises(kind) as raised:
        ext.scaled(*arguments)
    assert str(raised.value).startswith(said)


def test_containers():
    assert ext.total_of([ROW, memoryview(ROW)], 2) == 12
    assert ext.total_of(np.stack([ROW, ROW]), 1) == 6
    assert ext.total_by_name({"a": ROW, "b": ROW}) == 6
    assert np.shares_memory(np.asarray(ext.named(ROW)["x"]), ROW)
    assert [np.from_dlpack(t).tolist() for t in ext.of_the_module()] == [[1, 2]]
    assert [np.from_dlpack(t).tolist() for t in ext.of_the_module()] == [[1, 2]], "it was not moved from"


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ([ROW, ROW.astype(float)], "argument 'batch', element 1: expected float32[:] on cpu, got float64[3] on cpu"),
        ([ROW, "text"], "argument 'batch', element 1: expected a tensor"),
        ("text", "argument 'batch': expected a sequence of tensors, got str"),
        (3, "argument 'batch': expected a sequence of tensors, got int"),
    ],
)
def test_an_error_names_the_element(batch, said):
    with pytest.raises((TypeError, ValueError)) as raised:
        ext.total_of(batch, 1)
    assert str(raised.value).startswith(f"total_of(): {said}")


def test_keys_name_the_elements_of_a_mapping():
    with pytest.raises(ValueError, match=r"total_by_name\(\): argument 'batch', element 'b': expected float32"):
        ext.total_by_name({"a": ROW, "b": ROW.astype(int)})
    with pytest.raises(
        TypeError, match=r"total_by_name\(\): argument 'batch': expected a mapping of tensors, got list"
    ):
        ext.total_by_name([ROW])


def test_a_capsule_is_whole_when_another_argument_misfits():
    capsule = ROW.__dlpack__()
    with pytest.raises(TypeError, match="argument 'sure': expected True or False"):
        ext.batch_back([capsule], "no")
    assert capsules.is_whole(capsule)
    ext.batch_back([capsule], True)
    assert not capsules.is_whole(capsule)


class TestOwned:
    """An argument that is kept beyond the call, typed and converted."""

    def test_it_is_kept_and_returned(self):
        x, doubles = ROW.copy(), ROW.astype(float)
        gone = weakref.ref(x)
        ext.keep_typed(x, y=doubles)
        x *= 2
        doubles *= 2
        del x
        gc.collect()
        assert ext.kept_sum() == 6 + 3, "the first is the array itself, the second a copy of before"
        ext.drop_kept()
        assert gone() is None
        assert type(ext.keep_named_typed(ROW)) is isthmus.Tensor
        assert np.shares_memory(np.asarray(ext.keep_named_typed(ROW)), ROW)

    def test_containers(self):
        back = ext.keep_all_typed([ROW, ROW.astype(int)], True)
        assert np.shares_memory(np.asarray(back[0]), ROW)
        assert ext.kept_sum() == 6
        ext.drop_kept()
        with pytest.raises(ValueError, match=r"keep_all_typed\(\): argument 'all', element 1: .*complex128"):
            ext.keep_all_typed([ROW, ROW.astype(complex)], True)

    def test_errors_and_sizes(self):
        with pytest.raises(ValueError, match=r"keep_typed\(\): argument 'x': expected float32\[n\] on cpu"):
            ext.keep_typed(np.zeros((2, 2), np.float32))
        before = sys.getrefcount(ROW)
        with pytest.raises(ValueError, match=r"keep_typed\(\): argument 'y': .*n is 2 here and 3 in argument 'x'"):
            ext.keep_typed(ROW, ROW[:2])
        assert sys.getrefcount(ROW) == before

    def test_a_capsule_is_whole_when_the_call_is_refused(self):
        first, second = ROW.__dlpack__(), ROW[:2].__dlpack__()
        for call in (lambda: ext.keep_typed(first, second), lambda: ext.keep_all_typed([first], "no")):
            with pytest.raises((TypeError, ValueError)):
                call()
            assert capsules.is_whole(first)
            assert capsules.is_whole(second)
        ext.keep_typed(first)
        assert not capsules.is_whole(first)
        ext.drop_kept()

    def test_a_capsule_is_whole_when_a_later_write_is_refused(self):
        torch = pytest.importorskip("torch")
        capsule, out = ROW.__dlpack__(), torch.zeros(3, requires_grad=True)
        with pytest.raises(BufferError, match=r"write_kept\(\): argument 'out': .*grad"):
            ext.write_kept(capsule, out)
        assert capsules.is_whole(capsule)


def test_an_interrupt_passes_through():
    class Producer:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            raise KeyboardInterrupt("mine")

    with pytest.raises(KeyboardInterrupt, match="mine"):
        ext.total_of([ROW, Producer()], 1)


class TestTensorProtocol:
    def test_a_class_becomes_a_tensor(self):
        @ext.made_a_tensor
        class Mine:
            wanted = ROW

        assert np.shares_memory(np.from_dlpack(Mine()), ROW)
        assert np.shares_memory(np.asarray(memoryview(Mine())), ROW)
        assert Mine().__dlpack_device__() == (1, 0)
        assert np.asarray(Mine()).tolist() == ROW.tolist()

    def test_an_error_of_the_function(self):
        @ext.made_a_tensor
        class Mine:
            pass

        with pytest.raises(isthmus.Error, match="nothing is wanted"):
            memoryview(Mine())

    def test_a_class_that_takes_no_attributes(self):
        with pytest.raises(TypeError, match="immutable type"):
            ext.made_a_tensor(int)
