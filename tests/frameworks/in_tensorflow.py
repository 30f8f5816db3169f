"""TensorFlow: immutable and legacy only; row-major or an error; no string tensors."""

import time

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


def check_producer_layouts():
    """First by the buffer, then by TensorFlow's own functions: the same answers."""
    made_as = (
        tf.constant(5.0),
        tf.zeros((0,)),
        tf.zeros((3, 0, 2)),
        tf.reshape(tf.range(24), (2, 3, 4)),
        tf.ones((1, 1)),
    )
    for x in (*made_as, *made_as):
        t, array = ext.tensor_of(x), np.asarray(memoryview(x))
        assert (t.shape, t.dtype.name, t.read_only) == (array.shape, array.dtype.name, True)
        assert t.owner is x
        if array.size:
            assert t.data_ptr == array.ctypes.data
            assert t.strides == ext.tensor_of(array.copy()).strides


def check_producer_of_a_variable_is_not_written():
    """The tensor that a variable was read into keeps its values while the variable changes."""
    variable = tf.Variable(tf.zeros((1000,)))
    address(variable.read_value())
    t = ext.tensor_of(variable.read_value())
    for _ in range(3):
        variable.assign_add(tf.ones((1000,)))
        variable.scatter_nd_add([[1]], [5.0])
    assert values(t) == [0.0] * 1000
    assert variable.numpy()[1] == 18


def check_producer_is_no_operation_s_output():
    """An operation does not write the memory of a tensor that is held, though no variable of the program holds it."""
    t = ext.tensor_of(tf.ones((1000,)))
    x = t.to("tensorflow")
    for operation in (
        tf.nn.relu,
        tf.square,
        tf.negative,
        lambda x: x + 1.0,
        tf.identity,
        tf.function(lambda x: x * 2.0),
    ):
        y = operation(x)
        assert values(t) == [1.0] * 1000
        del y


def check_producer_refused_dtypes_after_numbers():
    ext.own(tf.ones((3,)))
    refuses("bad_dtype", ext.tensor_of, tf.constant(["a", "b"]))
    refuses("not_values", ext.tensor_of, tf.cast(tf.range(4), tf.qint32))
    refuses("not_values", ext.tensor_of, tf.quantization.quantize([1.0], 0.0, 1.0, tf.quint8).output)


def check_producer_that_waits_for_python():
    """A tensor whose operation still runs, a function of Python, which needs the GIL."""
    ext.own(tf.ones((3,)))

    def slow(x):
        time.sleep(0.05)
        return x + 1

    tf.config.experimental.set_synchronous_execution(False)
    try:
        x = tf.py_function(slow, [tf.ones((3,))], tf.float32) + tf.ones((3,))
        assert values(ext.tensor_of(x)) == [3, 3, 3]
    finally:
        tf.config.experimental.set_synchronous_execution(True)
