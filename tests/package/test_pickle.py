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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((bytes(8), "float32", (3,), False), "8 bytes do not hold float32"),
        ((bytes(8), "float32", (-2,), False), "8 bytes do not hold float32"),
        ((bytes(8), "flaot", (2,), False), "argument 'dtype'"),
        ((bytes(8), "float32", 2, False), "argument 'shape'"),
        ((None, "float32", (2,), False), "argument 'buffer'"),
    ],
)
def test_a_broken_message(arguments, text):
    with pytest.raises(isthmus.Error, match=text):
        isthmus._rebuild(*arguments)
