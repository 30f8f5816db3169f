"""The package's half of pickling: isthmus._rebuild."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import isthmus


def test_out_of_band_bytes_are_used_where_they_are():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    buffers: list = []
    message = pickle.dumps(isthmus.from_dlpack(x), protocol=5, buffer_callback=buffers.append)
    assert len(message) < 300
    again = pickle.loads(message, buffers=buffers)
    assert again.data_ptr == x.ctypes.data


def test_received_bytes_are_kept():
    x = np.arange(6, dtype="float32")
    buffers: list = []
    message = pickle.dumps(isthmus.from_dlpack(x), protocol=5, buffer_callback=buffers.append)
    received = bytearray(buffers[0].raw())
    again = pickle.loads(message, buffers=[received])
    assert not again.read_only
    with pytest.raises(BufferError):
        received.clear()
    np.testing.assert_array_equal(np.asarray(again), x)


def test_misplaced_bytes_are_moved():
    received = bytearray(33)
    address = isthmus.from_dlpack(received).data_ptr
    view = memoryview(received)[(1 - address) % 8 :][:24]
    again = isthmus._rebuild(view, "float64", (3,), False)
    assert again.data_ptr % 8 == 0
    assert again.shape == (3,)


def swapped(x: np.ndarray, *axes: int) -> np.ndarray:
    return x.transpose(axes)


DENSE = {
    "row-major": lambda x: x,
    "column-major": lambda x: swapped(x, 2, 1, 0),
    "permuted": lambda x: swapped(x, 1, 2, 0),
    "reversed": lambda x: x[::-1, ::-1, ::-1],
    "one of them reversed": lambda x: swapped(x, 2, 0, 1)[:, ::-1],
    "of size 1": lambda x: np.lib.stride_tricks.as_strided(x, (1, 24), (64, 4)),
    "empty": lambda x: x[:, :0, ::-1],
    "0-d": lambda x: x[1, 2, 3],
}
SPARSE = {
    "every other": lambda x: x[::2],
    "broadcast": lambda x: np.broadcast_to(x[0, 0], (3, 4)),
    "overlapping": lambda x: np.lib.stride_tricks.as_strided(x, (3, 4), (4, 4)),
    # As many bytes from the first to the last as elements, yet some of them twice and some not at all.
    "overlapping, of the right length": lambda x: np.lib.stride_tricks.as_strided(x, (2, 2, 2), (4, 4, 20)),
}


def array(make) -> np.ndarray:
    return np.asarray(make(np.arange(24, dtype=np.float32).reshape(2, 3, 4).copy()))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", DENSE)
def test_strides_come_back(name, protocol):
    t = isthmus.from_dlpack(array(DENSE[name]))
    back = pickle.loads(pickle.dumps(t, protocol))
    assert (back.shape, back.strides, back.read_only) == (t.shape, t.strides, t.read_only)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(t))


@pytest.mark.parametrize("name", DENSE)
def test_out_of_band_nothing_is_copied(name):
    t = isthmus.from_dlpack(array(DENSE[name]))
    buffers: list = []
    message = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    back = pickle.loads(message, buffers=buffers)
    assert back.size == 0 or back.data_ptr == t.data_ptr
    assert (back.strides, back.read_only) == (t.strides, t.read_only)
    moved = pickle.loads(message, buffers=[bytearray(b.raw()) for b in buffers])
    assert (moved.strides, moved.read_only) == (t.strides, t.read_only)
    np.testing.assert_array_equal(np.asarray(moved), np.asarray(t))
    assert pickle.loads(message, buffers=[bytes(b.raw()) for b in buffers]).read_only


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", SPARSE)
def test_what_is_not_dense_comes_back_row_major(name, protocol):
    t = isthmus.from_dlpack(array(SPARSE[name]))
    back = pickle.loads(pickle.dumps(t, protocol))
    assert back.is_contiguous
    assert back.read_only == t.read_only
    np.testing.assert_array_equal(np.asarray(back), np.asarray(t))


def test_a_message_of_before_has_four_fields():
    back = isthmus._rebuild(bytearray(8), "float32", (2,), False)
    assert (back.shape, back.strides, back.read_only) == ((2,), (1,), False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((bytes(8), "float32", (3,), False), "8 bytes do not hold float32"),
        ((bytes(8), "float32", (-2,), False), "8 bytes do not hold float32"),
        ((bytes(8), "flaot", (2,), False), "argument 'dtype'"),
        ((bytes(8), "float32", 2, False), "argument 'shape'"),
        ((None, "float32", (2,), False), "argument 'buffer'"),
        ((bytes(8), "float32", (2,), False, (2,), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, (-2,), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, (0,), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, (1, 1), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, (2**63 - 1,), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, (-(2**63),), False), "argument 'strides'"),
        ((bytes(0), "float32", (0,), False, (1, 1), False), "argument 'strides'"),
        ((bytes(8), "float32", (2,), False, 3, False), "argument 'strides'"),
    ],
)
def test_a_broken_message(arguments, text):
    with pytest.raises(isthmus.Error, match=text):
        isthmus._rebuild(*arguments)
