"""isthmus.trim(): the memory of dropped tensors, in every extension module of the process."""

from __future__ import annotations

import numpy as np
import pytest

import isthmus

MIB = 1 << 20


@pytest.fixture(autouse=True)
def kept():
    isthmus.trim()
    isthmus.empty((8 * MIB,), "uint8")
    if isthmus.trim() == 0:
        pytest.skip("this build keeps no memory (AddressSanitizer)")
    yield
    isthmus.trim()


def test_what_was_dropped_goes_back():
    x = isthmus.empty((64 * MIB,), "uint8")
    assert isthmus.trim() == 0
    del x
    assert 64 * MIB <= isthmus.trim() < 65 * MIB
    assert isthmus.trim() == 0


def test_what_is_to_be_kept_is_kept():
    first, last = (isthmus.empty((size * MIB,), "uint8") for size in (8, 16))
    del first
    del last
    assert 8 * MIB <= isthmus.trim(17 * MIB) < 9 * MIB
    assert 16 * MIB <= isthmus.trim() < 17 * MIB


def test_a_tensor_is_made_of_what_was_kept():
    first = isthmus.empty((64 * MIB,), "uint8").data_ptr
    assert isthmus.empty((64 * MIB,), "uint8").data_ptr == first


def test_what_shows_the_memory_keeps_it():
    array = np.from_dlpack(isthmus.empty((16 * MIB,), "uint8"))
    assert isthmus.trim() == 0
    del array
    assert isthmus.trim() >= 16 * MIB


def test_every_extension_of_the_process_is_asked():
    ext = pytest.importorskip("isthmus_test_ext")
    rows = np.ones((2048, 1), np.float32)
    result = ext.distances(rows, rows)
    del result
    assert 16 * MIB <= isthmus.trim() < 17 * MIB


@pytest.mark.parametrize(("keep", "error"), [(-1, ValueError), ("all", TypeError), (1.5, TypeError)])
def test_a_wrong_argument_is_an_error(keep, error):
    with pytest.raises(error):
        isthmus.trim(keep)


def test_a_negative_number_is_named():
    with pytest.raises(isthmus.TensorValueError, match=r"^argument 'keep': found -1; expected 0 bytes or more$"):
        isthmus.trim(-1)
