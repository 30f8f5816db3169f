"""Pickling and copying of isthmus.Tensor: by value, out of band where the pickler can."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus", reason="the package holds the other half of pickling")

PROTOCOLS = [2, 3, 4, 5]


def there_and_back(t, protocol: int):
    return pickle.loads(pickle.dumps(t, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, dtype=np.int64), np.zeros((0, 3)),
        np.arange(10.0)[::-2], np.arange(6).reshape(2, 3).T, np.array([True, False]), np.complex64([0, 1, 2]),
        np.broadcast_to(np.int16(4), (2, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_by_value(array, protocol):
    t = ext.tensor_of(array)
    back = there_and_back(t, protocol)
    assert type(back) is type(t)
    assert (back.shape, back.dtype) == (t.shape, t.dtype)
    assert np.from_dlpack(back).tolist() == array.tolist()
    if array.size:
        assert back.data_ptr != t.data_ptr


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("read_only", [False, True])
def test_read_only_stays(protocol, read_only):
    assert there_and_back(ext.pages([3], read_only=read_only), protocol).read_only == read_only


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("dtype", "padded"),
    [("bfloat16", False), ("float8_e4m3fn", False), ("int4", False), ("int4", True), ("float4_e2m1fn", False)],
)
def test_dtypes_without_a_format(dtype, padded, protocol):
    t = ext.pages([5], dtype, padded=padded, data=bytes(range(16)))
    back = there_and_back(t, protocol)
    assert (back.dtype, back.shape, back.nbytes) == (t.dtype, t.shape, t.nbytes)
    assert ext.own_elements(back) == ext.own_elements(t)
    assert ext.own(back)["padded"] == padded


def test_out_of_band():
    t = ext.tensor_of(np.arange(1000.0))
    buffers = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert len(data) < 300
    assert len(buffers) == 1
    with buffers[0].raw() as raw:
        assert raw.nbytes == 8000
    back = pickle.loads(data, buffers=buffers)
    assert back.data_ptr == t.data_ptr, "the very memory, since nothing moved it"
    assert not back.read_only
    del t, buffers
    assert np.from_dlpack(back)[999] == 999


def test_out_of_band_read_only():
    buffers = []
    data = pickle.dumps(ext.tensor_of(np.arange(8.0)).as_read_only(), 5, buffer_callback=buffers.append)
    assert pickle.loads(data, buffers=[memoryview(bytes(buffers[0].raw()))]).read_only


def test_a_large_one_is_not_copied_on_the_way():
    t = ext.pages([1 << 28])  # a GiB that nobody ever maps in
    buffers = []
    pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert buffers[0].raw().nbytes == 1 << 30


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_device_memory(protocol):
    with pytest.raises(BufferError, match="cuda:0"):
        pickle.dumps(ext.pages([2], device=(2, 0)), protocol)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_are_independent(duplicate):
    t = ext.tensor_of(np.arange(4.0))
    other = duplicate(t)
    assert other is not t
    np.from_dlpack(other)[0] = 100
    assert np.from_dlpack(t)[0] == 0


def test_twice_in_one_pickle_is_once():
    t = ext.tensor_of(np.arange(4.0))
    first, second = there_and_back([t, t], 5)
    assert first is second


@pytest.mark.parametrize("value", ["dtype", "device"])
def test_what_it_is_made_of(value):
    x = getattr(ext.pages([1]), value)
    for protocol in PROTOCOLS:
        assert there_and_back(x, protocol) == x
