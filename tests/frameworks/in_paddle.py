"""PaddlePaddle: shares everything, ignores a byte offset and the read-only flag."""

import numpy as np
import paddle
from checks import from_threads, kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = paddle.__version__
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128",
    "bfloat16",
]  # fmt: skip


def back(x, **options):
    return ext.hand(x, "paddle", **options)


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        for x in (back(t), t.to("paddle"), paddle.utils.dlpack.from_dlpack(t)):
            assert str(x.dtype).endswith(dtype), (dtype, x.dtype)
            assert x.data_ptr() == t.data_ptr
            wanted = [1, 2, 3, 4] if dtype == "bfloat16" else np.arange(4).astype(dtype).tolist()
            assert (x.astype("float32") if dtype == "bfloat16" else x).tolist() == wanted


def check_consumer_strides():
    for strides, wanted in (([1, 3], [[0, 3], [1, 4], [2, 5]]), ([0, 1], [[0, 1]] * 3)):
        t = ext.pages([3, 2], strides=strides, data=np.arange(6, dtype=np.float32))
        x = back(t)
        assert x.data_ptr() == t.data_ptr
        assert x.strides == strides
        assert x.numpy().tolist() == wanted


def check_consumer_offset_is_folded():
    t = made(shape=(4,), offset=64)
    assert back(t).tolist() == values(t)


def check_consumer_scalars_and_nothing():
    for shape in ([], [0], [3, 0, 2]):
        assert back(ext.pages(shape)).shape == shape


def check_consumer_read_only_needs_the_callers_word():
    t = made(read_only=True)
    assert "allow_read_only_loss" in refuses("read_only", back, t)
    assert back(t, allow_read_only_loss=True).data_ptr() == t.data_ptr


def check_consumer_lifetime():
    kept_by_consumer(back, lambda x: x.tolist())


def check_producer_every_dtype():
    for dtype in DTYPES:
        x = paddle.arange(4).astype(dtype)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.data_ptr, t.shape, t.device.name) == (dtype, x.data_ptr(), (4,), "cpu")
        assert not t.read_only


def check_producer_views():
    x = paddle.arange(24, dtype="float32").reshape([4, 6])
    for v in (x[1:], x[:, 2:4], x.T):
        assert np.from_dlpack(ext.tensor_of(v)).tolist() == v.numpy().tolist()


def check_producer_lifetime():
    kept_by_isthmus(lambda: paddle.arange(6, dtype="float32").reshape([2, 3]), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    for x in (paddle.arange(3), paddle.ones([2, 2], "bfloat16"), paddle.to_tensor(1.0)):
        assert back(x) is x
        assert ext.tensor_of(x).to("paddle") is x


def check_threads():
    """Values only: of several threads that import at once, Paddle 3.3 forgets some deleters,
    whoever the producer is."""
    t = made()

    def work():
        assert back(t).tolist() == [[0, 1, 2], [3, 4, 5]]

    from_threads(work, rounds=5)
