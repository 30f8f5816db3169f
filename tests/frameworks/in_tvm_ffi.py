"""Apache TVM FFI: shares everything, drops the read-only flag."""

import numpy as np
import tvm_ffi
from checks import DTYPES, SMALL_FLOATS, from_threads, gone, kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = tvm_ffi.__version__


def back(x, **options):
    return ext.hand(x, "tvm_ffi", **options)


def address(x):
    return ext.own(x)["data"]


def check_consumer_every_dtype():
    for dtype in [*DTYPES, *SMALL_FLOATS, "float4_e2m1fn"]:
        t = made(dtype, (4,)) if dtype != "float4_e2m1fn" else ext.pages([4], dtype)
        for x in (back(t), t.to("tvm_ffi"), tvm_ffi.from_dlpack(t)):
            assert ext.own(x)["dtype"] == dtype  # str(x.dtype) fails for bool and complex numbers
            assert address(x) == t.data_ptr
            assert tuple(x.shape) == (4,)


def check_consumer_by_the_exchange_api():
    """A function of tvm_ffi takes our tensor for an argument, and calls the C functions of our type."""
    t = made()
    echo = tvm_ffi.convert(lambda x: x)
    x = echo(t)
    assert ext.own(x)["data"] == t.data_ptr


def check_consumer_strides():
    t = ext.pages([3, 2], strides=[1, 3], data=np.arange(6, dtype=np.float32))
    for x in (back(t), tvm_ffi.from_dlpack(t)):
        assert tuple(x.strides) == (1, 3)
        assert np.from_dlpack(x).tolist() == [[0, 3], [1, 4], [2, 5]]


def check_consumer_scalars_and_nothing():
    for shape in ([], [0], [3, 0, 2]):
        assert tuple(back(ext.pages(shape)).shape) == tuple(shape)


def check_consumer_read_only_needs_the_callers_word():
    t = made(read_only=True)
    assert "allow_read_only_loss" in refuses("read_only", back, t)
    assert address(back(t, allow_read_only_loss=True)) == t.data_ptr


def check_consumer_lifetime():
    for take in (back, tvm_ffi.from_dlpack):
        kept_by_consumer(take, lambda x: np.from_dlpack(x).tolist())


def check_producer_lifetime():
    kept_by_isthmus(lambda: tvm_ffi.from_dlpack(np.arange(6.0).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]])


def check_producer_every_dtype():
    for dtype in DTYPES:
        a = np.arange(4).astype(dtype)
        t = ext.tensor_of(tvm_ffi.from_dlpack(a))
        assert (t.dtype.name, t.data_ptr) == (dtype, a.ctypes.data)
        assert values(t) == a.tolist()


def check_identity():
    x = tvm_ffi.from_dlpack(np.arange(3.0))
    assert back(x) is x
    assert ext.tensor_of(x).to("tvm_ffi") is x


def check_threads():
    before, held = gone(), [made()]

    def work():
        t = held[0]
        assert np.from_dlpack(back(t))[1, 2] == 5

    from_threads(work)
    held.clear()
    assert gone() == before + 1
