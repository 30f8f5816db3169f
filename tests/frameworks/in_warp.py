"""NVIDIA Warp: shares everything, asks for legacy capsules, ignores a byte offset and knows no read-only memory."""

import numpy as np
import warp as wp
from checks import kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

wp.config.quiet = True
wp.init()
VERSION = wp.__version__
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def back(x, **options):
    return ext.hand(x, "warp", **options)


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        for x in (back(t), t.to("warp"), wp.from_dlpack(t)):
            assert x.dtype.__name__ == dtype
            assert x.ptr == t.data_ptr
            assert x.numpy().tolist() == np.arange(4).astype(dtype).tolist()


def check_consumer_strides():
    t = ext.pages([3, 2], strides=[1, 3], data=np.arange(6, dtype=np.float32))
    x = back(t)
    assert x.strides == (4, 12)
    assert x.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def check_consumer_offset_is_folded():
    t = made(shape=(4,), offset=64)
    assert back(t).numpy().tolist() == values(t)


def check_consumer_read_only_needs_the_callers_word():
    t = made(read_only=True)
    assert "allow_read_only_loss" in refuses("read_only", back, t)
    assert back(t, allow_read_only_loss=True).ptr == t.data_ptr


def check_consumer_lifetime():
    kept_by_consumer(back, lambda x: x.numpy().tolist())


def check_producer_every_dtype():
    for dtype in DTYPES:
        x = wp.array(np.arange(4).astype(dtype), dtype=getattr(wp, dtype), device="cpu")
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.shape, t.data_ptr) == (dtype, (4,), x.ptr)
        assert values(t) == [0, 1, 2, 3]


def check_producer_lifetime():
    kept_by_isthmus(
        lambda: wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.float64, device="cpu"), [[0, 1, 2], [3, 4, 5]]
    )


def check_identity():
    x = wp.zeros(3, dtype=wp.float32, device="cpu")
    assert back(x) is x
    assert ext.tensor_of(x).to("warp") is x
