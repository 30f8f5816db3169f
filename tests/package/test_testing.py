"""isthmus.testing, by its use."""

from __future__ import annotations

import numpy as np
import pytest

import isthmus
from isthmus.testing import assert_no_live_tensors


def test_nothing_left():
    with assert_no_live_tensors():
        isthmus.from_dlpack(np.zeros(3))
    assert not isthmus.live.enabled


def test_a_leak_is_told_with_its_place():
    with pytest.raises(AssertionError, match=r"1 tensor is still alive:\n  numpy.ndarray -> ") as info:
        with assert_no_live_tensors():
            leak = isthmus.from_dlpack(np.zeros(3))
    assert f"{__file__}:" in str(info.value)
    assert not isthmus.live.enabled
    del leak


def test_tensors_from_before_do_not_count():
    with assert_no_live_tensors():
        before = isthmus.empty((2,))
        with assert_no_live_tensors():
            after = isthmus.empty((3,))
            del after
        assert isthmus.live.enabled
        del before


def test_a_tensor_from_before_that_dies_hides_no_leak():
    kept = []
    isthmus.live.enable()
    try:
        kept.append(isthmus.empty((2,)))
        check = assert_no_live_tensors()
        check.__enter__()
        kept[0] = isthmus.empty((2,))
        with pytest.raises(AssertionError, match="1 tensor is"):
            check.__exit__(None, None, None)
        kept.clear()
    finally:
        isthmus.live.disable()


def test_cycles_are_collected():
    class Holder:
        pass

    with assert_no_live_tensors():
        holder = Holder()
        holder.itself = holder
        holder.tensor = isthmus.empty((2,))
        del holder


def test_exceptions_pass():
    kept = []

    @assert_no_live_tensors()
    def fails() -> None:
        kept.append(isthmus.empty((2,)))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert not isthmus.live.enabled
    kept.clear()


def test_as_a_decorator():
    kept = []

    @assert_no_live_tensors()
    def leaks() -> None:
        kept.append(isthmus.empty((2,)))

    with pytest.raises(AssertionError):
        leaks()
    with pytest.raises(AssertionError):
        leaks()
    kept.clear()
