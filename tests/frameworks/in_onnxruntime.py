"""ONNX Runtime's OrtValue: row-major only, legacy capsules, ignores a byte offset and knows no read-only memory."""

import numpy as np
import onnxruntime as ort
from checks import kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = ort.__version__
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def back(x, **options):
    return ext.hand(x, "onnxruntime", **options)


def ort_value(a):
    return ort.OrtValue.ortvalue_from_numpy(a)._ortvalue


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        for x in (back(t), t.to("onnxruntime")):
            assert x.numpy().dtype == dtype, (x.data_type(), dtype)
            assert x.data_ptr() == t.data_ptr
            assert x.numpy().tolist() == np.arange(4).astype(dtype).tolist()


def check_consumer_strides_are_an_error():
    assert "contiguous" in refuses("needs_copy", back, ext.pages([3, 2], strides=[1, 3]))


def check_consumer_offset_is_folded():
    t = made(shape=(4,), offset=64)
    assert back(t).numpy().tolist() == values(t)


def check_consumer_read_only_needs_the_callers_word():
    t = made(read_only=True)
    assert "allow_read_only_loss" in refuses("read_only", back, t)
    assert back(t, allow_read_only_loss=True).data_ptr() == t.data_ptr


def check_consumer_lifetime():
    kept_by_consumer(back, lambda x: x.numpy().tolist())


def check_producer():
    for dtype in DTYPES:
        a = np.arange(4).astype(dtype)
        x = ort_value(a)
        t = ext.tensor_of(x)
        assert t.shape == (4,)
        assert t.data_ptr == x.data_ptr()
        # bool arrives as uint8: ONNX Runtime's capsules say so
        assert t.dtype.name == ("uint8" if dtype == "bool" else dtype) or t.dtype.name == dtype


def check_producer_lifetime():
    kept_by_isthmus(lambda: ort_value(np.arange(6.0).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    x = ort_value(np.arange(3.0))
    assert back(x) is x
