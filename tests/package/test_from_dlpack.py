"""isthmus.from_dlpack and isthmus.empty."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import isthmus

FLOAT32 = "float32"


def float32(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=FLOAT32).reshape(shape)


def test_shares_the_memory():
    x = float32(2, 3)
    t = isthmus.from_dlpack(x)
    assert type(t) is isthmus.Tensor
    assert (t.data_ptr, t.shape, t.strides, t.dtype, t.device) == (x.ctypes.data, (2, 3), (3, 1), FLOAT32, "cpu")
    assert not t.read_only
    x[0, 0] = 42
    assert np.asarray(t)[0, 0] == 42


def test_an_array_comes_back_as_itself():
    x = float32(4)
    assert isthmus.from_dlpack(x).to("numpy") is x


def test_a_tensor_comes_back_as_itself():
    t = isthmus.from_dlpack(float32(4))
    assert isthmus.from_dlpack(t) is t


def test_keeps_the_array_alive_and_lets_it_go():
    x = float32(4)
    gone = weakref.ref(x)
    t = isthmus.from_dlpack(x)
    del x
    gc.collect()
    assert gone() is not None
    del t
    gc.collect()
    assert gone() is None


def test_read_only_stays():
    x = float32(4)
    x.flags.writeable = False
    assert isthmus.from_dlpack(x).read_only


def test_copy_true_copies_and_is_writable():
    x = float32(2, 3).T
    x.flags.writeable = False
    t = isthmus.from_dlpack(x, copy=True)
    assert t.data_ptr != x.ctypes.data
    assert not t.read_only
    assert t.is_copied
    np.testing.assert_array_equal(np.asarray(t), x)


def test_copy_false_shares():
    x = float32(4)
    assert isthmus.from_dlpack(x, copy=False).data_ptr == x.ctypes.data


@pytest.mark.parametrize("device", ["cpu", (1, 0), isthmus.Device("cpu"), "cpu:0", None])
@pytest.mark.parametrize("copy", [None, False])
def test_on_the_device_where_it_is(device, copy):
    x = float32(4)
    assert isthmus.from_dlpack(x, device=device, copy=copy).data_ptr == x.ctypes.data


def test_another_device_without_a_copy():
    with pytest.raises(isthmus.TensorBufferError, match=r"'copy'.*False.*cpu.*cuda:0") as info:
        isthmus.from_dlpack(float32(4), device="cuda", copy=False)
    assert info.value.code == "needs_copy"


def test_another_device_that_numpy_has_not():
    with pytest.raises(isthmus.Error) as info:
        isthmus.from_dlpack(float32(4), device="cuda:0")
    assert isinstance(info.value, BufferError)
    assert info.value.__cause__ is not None


@pytest.mark.parametrize(
    ("options", "builtin", "text"),
    [
        ({"device": "abc"}, ValueError, r"argument 'device': found 'abc'; expected .*'cuda:0'"),
        ({"device": 3}, TypeError, r"argument 'device': found 3; expected"),
        ({"device": (99, 0)}, ValueError, r"argument 'device': found \(99, 0\)"),
        ({"copy": 1}, TypeError, r"argument 'copy': found 1; expected None, True or False"),
    ],
)
def test_wrong_options(options, builtin, text):
    with pytest.raises(builtin, match=text) as info:
        isthmus.from_dlpack(float32(4), **options)
    assert isinstance(info.value, isthmus.Error)


def test_wrong_calls():
    with pytest.raises(TypeError, match="unexpected keyword argument 'stream'"):
        isthmus.from_dlpack(float32(4), stream=1)
    with pytest.raises(TypeError, match="one positional argument"):
        isthmus.from_dlpack()
    with pytest.raises(TypeError, match="one positional argument"):
        isthmus.from_dlpack(float32(4), float32(4))


@pytest.mark.parametrize("x", [None, 3, "text", [1.0, 2.0], object()], ids=lambda x: type(x).__name__)
def test_no_tensor(x):
    with pytest.raises(isthmus.TensorTypeError, match=r"argument 'x': .*got ") as info:
        isthmus.from_dlpack(x)
    assert isinstance(info.value, TypeError)
    assert info.value.code == "not_a_tensor"


def test_the_producers_exception_is_the_cause():
    class Producer:
        def __dlpack__(self, **options):
            raise RuntimeError("busy")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(isthmus.TensorBufferError, match="busy") as info:
        isthmus.from_dlpack(Producer())
    assert isinstance(info.value.__cause__, RuntimeError)


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
def test_frameworks_and_back(framework):
    module = pytest.importorskip(framework)
    x = module.zeros((2, 3))
    t = isthmus.from_dlpack(x)
    assert t.shape == (2, 3)
    assert t.to(framework.split(".")[0]) is x


@pytest.mark.parametrize(
    "dtype", [FLOAT32, "bfloat16", "float8_e4m3fn", "bool", (0, 16, 1), isthmus.DType("complex64")], ids=str
)
def test_empty(dtype):
    t = isthmus.empty((3, 5), dtype)
    assert t.shape == (3, 5)
    assert t.dtype == isthmus.DType(dtype)
    assert t.data_ptr % 64 == 0
    assert t.owner is None
    assert not t.read_only
    assert t.is_contiguous


def test_empty_is_float32_by_default_and_zero_sizes_are_fine():
    assert isthmus.empty(()).dtype == FLOAT32
    assert isthmus.empty((0, 3)).nbytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        ((-1,), FLOAT32, "argument 'shape'.*negative"),
        ((2**62, 2**62), FLOAT32, "argument 'shape'.*more bytes"),
        ((2**70,), FLOAT32, "argument 'shape'.*64 bits"),
        (1.5, FLOAT32, "argument 'shape': found 1.5"),
        ("ab", FLOAT32, "argument 'shape': found 'ab'"),
        ((1.5,), FLOAT32, "argument 'shape': found"),
        ((True,), FLOAT32, "argument 'shape': found"),
        ((1,) * 65, FLOAT32, "argument 'shape': found 65 dimensions; expected at most 64"),
        ((2,), "flaot32", "argument 'dtype': found 'flaot32'"),
        ((2,), 7, "argument 'dtype': found 7"),
    ],
)
def test_empty_refuses(shape, dtype, text):
    with pytest.raises(isthmus.Error, match=text):
        isthmus.empty(shape, dtype)
