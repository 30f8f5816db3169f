"""PyArrow's Tensor: shares everything, keeps read-only; no bool, no complex numbers."""

import numpy as np
import pyarrow as pa
from checks import from_threads, gone, kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = pa.__version__
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def back(x, **options):
    return ext.hand(x, "pyarrow", **options)


def address(x):
    return x.to_numpy().ctypes.data


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        for x in (back(t), t.to("pyarrow"), pa.Tensor.from_dlpack(t)):
            assert x.type.to_pandas_dtype() == np.dtype(dtype).type
            assert address(x) == t.data_ptr
            assert x.to_numpy().tolist() == np.arange(4).astype(dtype).tolist()


def check_consumer_no_counterpart():
    for dtype in ("complex64", "bfloat16"):
        refuses("consumer_failed", back, made(dtype, (4,)))


def check_consumer_strides():
    t = ext.pages([3, 2], strides=[1, 3], data=np.arange(6, dtype=np.float32))
    x = back(t)
    assert x.strides == (4, 12)
    assert address(x) == t.data_ptr
    assert x.to_numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def check_consumer_read_only_is_kept():
    assert not back(made(read_only=True)).is_mutable
    assert back(made()).is_mutable


def check_consumer_lifetime():
    for take in (back, pa.Tensor.from_dlpack):
        kept_by_consumer(take, lambda x: x.to_numpy().tolist())


def check_producer_tensor():
    for dtype in DTYPES:
        a = np.arange(4).astype(dtype)
        x = pa.Tensor.from_numpy(a)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.data_ptr) == (dtype, a.ctypes.data)


def check_producer_array():
    x = pa.array([1.0, 2.0, 3.0])
    t = ext.tensor_of(x)
    assert values(t) == [1, 2, 3]
    assert t.read_only, "Arrow's arrays are immutable by contract"
    assert t.data_ptr == x.buffers()[1].address
    assert values(ext.tensor_of(x[1:])) == [2, 3]


def check_producer_array_with_nulls():
    for x in (pa.array([1.0, None]), pa.array(["a"]), pa.array([[1]])):
        try:
            ext.tensor_of(x)
        except ext.Error:
            continue
        raise AssertionError(f"{x.type} was taken")


def check_producer_buffer():
    assert ext.own_elements(pa.py_buffer(b"abcd")) == b"abcd"


def check_producer_lifetime():
    kept_by_isthmus(lambda: pa.Tensor.from_numpy(np.arange(6.0).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    x = pa.Tensor.from_numpy(np.arange(3.0))
    assert back(x) is x
    assert ext.tensor_of(x).to("pyarrow") is x


def check_threads():
    before, held = gone(), [made()]

    def work():
        t = held[0]
        assert back(t).to_numpy()[1, 2] == 5

    from_threads(work)
    held.clear()
    assert gone() == before + 1
