"""Pickles of isthmus.Tensor keep how the elements lie and whether they may be written, in band and out of band."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import isthmus


def test_out_of_band_bytes_are_used_where_they_are():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    message, buffers = out_of_band(isthmus.from_dlpack(x))
    assert len(message) < 300
    again = pickle.loads(message, buffers=buffers)
    assert again.data_ptr == x.ctypes.data


def test_received_bytes_are_kept():
    x = np.arange(6, dtype="float32")
    message, buffers = out_of_band(isthmus.from_dlpack(x))
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


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DENSE = {
    "row-major": X,
    "row-major, float64": np.arange(24.0).reshape(2, 3, 4),
    "column-major": X.transpose(2, 1, 0),
    "column-major, int16": np.asfortranarray(np.arange(6, dtype="int16").reshape(2, 3)),
    "permuted": X.transpose(1, 2, 0),
    "permuted, float64": np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "reversed": X[::-1, ::-1, ::-1],
    "reversed, 1-d": np.arange(10)[::-1],
    "one of them reversed": X.transpose(2, 0, 1)[:, ::-1],
    "one of two reversed": np.arange(12).reshape(3, 4)[:, ::-1].T,
    "of size 1": as_strided(X, (1, 24), (64, 4)),
    "empty": X[:, :0, ::-1],
    "0-d": X[1, 2, 3, ...],
    "0-d, float64": np.array(3.0),
}
SPARSE = {
    "every other": X[::2],
    "every other, 1-d": np.arange(10)[::2],
    "columns": np.arange(12).reshape(3, 4)[:, :2],
    "broadcast": np.broadcast_to(X[0, 0], (3, 4)),
    "repeated": np.broadcast_to(np.float32(4), (2, 3)),
    "overlapping": as_strided(X, (3, 4), (4, 4)),
    # As many bytes from the first to the last as elements, yet some of them twice and some not at all.
    "overlapping, of the right length": as_strided(X, (2, 2, 2), (4, 4, 20)),
}
protocols = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


def out_of_band(t: isthmus.Tensor) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(t, protocol=5, buffer_callback=buffers.append), buffers


@protocols
@pytest.mark.parametrize("name", DENSE)
def test_dense_strides_are_kept_in_band(name, protocol):
    t = isthmus.from_dlpack(DENSE[name])
    back = pickle.loads(pickle.dumps(t, protocol))
    assert (back.shape, back.strides, back.dtype, back.read_only) == (t.shape, t.strides, t.dtype, t.read_only)
    assert back.data_ptr != t.data_ptr
    np.testing.assert_array_equal(np.asarray(back), DENSE[name])


@pytest.mark.parametrize("name", DENSE)
def test_dense_memory_is_not_copied_out_of_band(name):
    t = isthmus.from_dlpack(DENSE[name])
    message, buffers = out_of_band(t)
    assert len(buffers) == 1
    assert buffers[0].raw().nbytes == t.nbytes
    back = pickle.loads(message, buffers=buffers)
    assert back.size == 0 or back.data_ptr == t.data_ptr
    assert (back.strides, back.read_only) == (t.strides, t.read_only)
    moved = pickle.loads(message, buffers=[bytearray(b.raw()) for b in buffers])
    assert (moved.strides, moved.read_only) == (t.strides, t.read_only)
    np.testing.assert_array_equal(np.asarray(moved), DENSE[name])
    assert pickle.loads(message, buffers=[bytes(b.raw()) for b in buffers]).read_only


@protocols
@pytest.mark.parametrize("name", SPARSE)
def test_what_is_not_dense_comes_back_row_major(name, protocol):
    t = isthmus.from_dlpack(SPARSE[name])
    back = pickle.loads(pickle.dumps(t, protocol))
    assert back.is_contiguous
    assert back.read_only == t.read_only
    np.testing.assert_array_equal(np.asarray(back), SPARSE[name])


@pytest.mark.parametrize("name", SPARSE)
def test_what_is_not_dense_ships_its_own_bytes(name):
    t = isthmus.from_dlpack(SPARSE[name])
    message, buffers = out_of_band(t)
    assert buffers[0].raw().nbytes == t.nbytes
    np.testing.assert_array_equal(np.asarray(pickle.loads(message, buffers=buffers)), SPARSE[name])
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(t))), SPARSE[name])


@protocols
@pytest.mark.parametrize("name", [*DENSE, *SPARSE])
def test_read_only_stays_read_only_in_band(name, protocol):
    array = {**DENSE, **SPARSE}[name]
    writable = isthmus.from_dlpack(array.copy(order="K"))
    assert not pickle.loads(pickle.dumps(writable, protocol)).read_only
    assert pickle.loads(pickle.dumps(isthmus.from_dlpack(read_only(array)), protocol)).read_only


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("sealed", [False, True])
def test_out_of_band_it_is_writable_where_both_are(kind, sealed):
    array = DENSE["permuted, float64"].copy(order="K")
    message, buffers = out_of_band(isthmus.from_dlpack(read_only(array) if sealed else array))
    again = pickle.loads(message, buffers=[kind(buffers[0].raw())])
    assert again.read_only == (sealed or kind is bytes)
    np.testing.assert_array_equal(np.asarray(again), array)


@pytest.mark.parametrize(("kind", "sealed"), [(bytearray, False), (bytes, True)])
def test_a_message_of_before_has_four_fields(kind, sealed):
    back = isthmus._rebuild(kind(8), "float32", (2,), False)
    assert (back.shape, back.strides, back.read_only) == ((2,), (1,), sealed)


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
        ((bytes(24), "float32", (2, 3), False, (2, 1), False), "argument 'strides'"),
        ((bytes(24), "float32", (2, 3), False, (1,), False), "argument 'strides'"),
        ((bytes(24), "float32", (2, 3), False, (0, 1), False), "argument 'strides'"),
        ((bytes(24), "float32", (2, 3), False, (1, 1), False), "argument 'strides'"),
        ((bytes(24), "float32", (2, 3), False, (1 << 62, 1), False), "argument 'strides'"),
    ],
)
def test_a_broken_message(arguments, text):
    with pytest.raises(isthmus.Error, match=text):
        isthmus._rebuild(*arguments)


@pytest.mark.parametrize(("protocol", "error"), [("2", TypeError), (2**70, OverflowError)])
def test_a_protocol_that_is_none(protocol: object, error: type[Exception]) -> None:
    tensor = isthmus.from_dlpack(np.ones(3))
    with pytest.raises(error):
        tensor.__reduce_ex__(protocol)  # type: ignore[arg-type]
