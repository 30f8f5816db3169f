"""Pickles of isthmus.Tensor keep how the elements lie and whether they may be written, in band and out of band."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import isthmus

DENSE = {
    "row-major": np.arange(24.0).reshape(2, 3, 4),
    "turned": np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "column-major": np.asfortranarray(np.arange(6, dtype="int16").reshape(2, 3)),
    "backwards": np.arange(10)[::-1],
    "backwards in one dimension": np.arange(12).reshape(3, 4)[:, ::-1].T,
    "scalar": np.array(3.0),
}
GAPS = {
    "every other": np.arange(10)[::2],
    "columns": np.arange(12).reshape(3, 4)[:, :2],
    "repeated": np.broadcast_to(np.float32(4), (2, 3)),
}


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


def out_of_band(t: isthmus.Tensor):
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(t, 5, buffer_callback=buffers.append), buffers


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", DENSE)
def test_dense_strides_are_kept_in_band(name, protocol):
    t = isthmus.from_dlpack(DENSE[name])
    again = pickle.loads(pickle.dumps(t, protocol))
    assert (again.shape, again.strides, again.dtype) == (t.shape, t.strides, t.dtype)
    assert again.data_ptr != t.data_ptr
    np.testing.assert_array_equal(np.asarray(again), DENSE[name])


@pytest.mark.parametrize("name", DENSE)
def test_dense_memory_is_not_copied_out_of_band(name):
    t = isthmus.from_dlpack(DENSE[name])
    message, buffers = out_of_band(t)
    assert len(buffers) == 1
    assert buffers[0].raw().nbytes == t.nbytes
    again = pickle.loads(message, buffers=buffers)
    assert (again.data_ptr, again.strides) == (t.data_ptr, t.strides)


@pytest.mark.parametrize("name", GAPS)
def test_a_slice_ships_its_own_bytes(name):
    t = isthmus.from_dlpack(GAPS[name])
    message, buffers = out_of_band(t)
    assert buffers[0].raw().nbytes == t.nbytes
    for again in (pickle.loads(message, buffers=buffers), pickle.loads(pickle.dumps(t))):
        np.testing.assert_array_equal(np.asarray(again), GAPS[name])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", [*DENSE, *GAPS])
def test_read_only_stays_read_only_in_band(name, protocol):
    array = {**DENSE, **GAPS}[name]
    writable = isthmus.from_dlpack(array.copy(order="K"))
    assert not pickle.loads(pickle.dumps(writable, protocol)).read_only
    assert pickle.loads(pickle.dumps(isthmus.from_dlpack(read_only(array)), protocol)).read_only


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("sealed", [False, True])
def test_out_of_band_it_is_writable_where_both_are(kind, sealed):
    array = DENSE["turned"].copy(order="K")
    message, buffers = out_of_band(isthmus.from_dlpack(read_only(array) if sealed else array))
    again = pickle.loads(message, buffers=[kind(buffers[0].raw())])
    assert again.read_only == (sealed or kind is bytes)
    np.testing.assert_array_equal(np.asarray(again), array)


def test_pickles_of_older_versions_are_read():
    again = isthmus._rebuild(bytes(8), "float32", (2,), False)
    assert (again.shape, again.strides, again.read_only) == ((2,), (1,), True)


@pytest.mark.parametrize("strides", [(2, 1), (1,), (0, 1), (1, 1), (1 << 62, 1)])
def test_strides_of_a_broken_message(strides):
    with pytest.raises(isthmus.Error, match="argument 'strides'"):
        isthmus._rebuild(bytes(24), "float32", (2, 3), False, strides, False)
