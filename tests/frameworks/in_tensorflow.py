"""TensorFlow: immutable and legacy only; row-major or an error; no string tensors."""

import numpy as np
import tensorflow as tf
from checks import DTYPES, SMALL_FLOATS, from_threads, gone, kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = tf.__version__


def back(x, **options):
    return ext.hand(x, "tensorflow", **options)


def address(x):
    return ext.own(x)["data"]


def check_consumer_every_dtype():
    for dtype in [*DTYPES, "bfloat16"]:
        t = made(dtype, (4,))
        for x in (back(t), t.to("tensorflow"), tf.experimental.dlpack.from_dlpack(t.__dlpack__())):
            assert x.dtype.name == dtype
            assert address(x) == t.data_ptr
            wanted = [1, 2, 3, 4] if dtype in SMALL_FLOATS else np.arange(4).astype(dtype).tolist()
            assert x.numpy().astype(np.float64 if dtype in SMALL_FLOATS else dtype).tolist() == wanted


def check_consumer_strides_are_an_error():
    backwards = ext.tensor_of(np.arange(6)[::-1])
    for t in (ext.pages([3, 2], strides=[1, 3]), ext.pages([3, 2], strides=[1, 3], offset=4), backwards):
        assert "contiguous" in refuses("needs_copy", back, t)


def check_consumer_scalars_and_nothing():
    for shape in ([], [0], [3, 0, 2]):
        assert tuple(back(ext.pages(shape)).shape) == tuple(shape)


def check_consumer_offset_is_folded():
    t = made(shape=(4,), offset=64)
    assert back(t).numpy().tolist() == values(t)


def check_consumer_read_only_is_no_loss():
    t = made(read_only=True)
    assert address(back(t)) == t.data_ptr


def check_consumer_lifetime():
    kept_by_consumer(back, lambda x: x.numpy().tolist())


def check_consumer_padded_elements_are_an_error():
    refuses("bad_dtype", back, ext.pages([4], "int4", padded=True))


def check_producer_every_dtype():
    for dtype in [*DTYPES, "bfloat16"]:
        x = tf.cast(tf.range(4), dtype)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.shape) == (dtype, (4,))
        assert t.read_only, "EagerTensors are immutable"
        if dtype != "bfloat16":
            assert values(t) == x.numpy().tolist()


def check_producer_string_tensor():
    """TensorFlow itself would end the process."""
    refuses("bad_dtype", ext.tensor_of, tf.constant(["a", "b"]))


def check_producer_lifetime():
    kept_by_isthmus(lambda: tf.reshape(tf.range(6.0), (2, 3)), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    for x in (tf.range(3), tf.ones((2, 2), tf.bfloat16), tf.constant(1.0)):
        assert back(x) is x
        assert ext.tensor_of(x).to("tensorflow") is x


def check_threads():
    before, held = gone(), [made()]

    def work():
        t = held[0]
        assert back(t)[1, 2] == 5

    from_threads(work, rounds=5)
    held.clear()
    assert gone() == before + 1
