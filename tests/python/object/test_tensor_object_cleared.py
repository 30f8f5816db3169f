"""An isthmus.Tensor that the garbage collector has cleared says so, whatever is asked of it: code that runs while a
cycle dies may still have it."""

from __future__ import annotations

import copy
import operator
import pickle
import weakref
from collections.abc import Callable
from types import GetSetDescriptorType

import numpy as np
import pytest

import isthmus_test_ext as ext

Tensor = type(ext.pages([1]))


class Owner:
    pass


@pytest.fixture
def cleared() -> object:
    """As in a cycle of the tensor and its owner: the memory is given back, and the object is left."""
    owner = Owner()
    tensor, end = ext.own_by_python(np.arange(6.0), owner), weakref.ref(owner)
    del owner
    assert end() is not None
    ext.clear_as_collector(tensor)
    assert end() is None
    return tensor


ASKED = {
    **{
        name: operator.attrgetter(name)
        for name, value in vars(Tensor).items()
        if isinstance(value, GetSetDescriptorType)
    },
    "to": lambda t: t.to("numpy"),
    "as_read_only": lambda t: t.as_read_only(),
    "asarray": np.asarray,
    "__array__": lambda t: t.__array__(),
    "memoryview": memoryview,
    "__dlpack__": lambda t: t.__dlpack__(max_version=(1, 0)),
    "__dlpack_device__": lambda t: t.__dlpack_device__(),
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "index": lambda t: t[0],
    "iterate": lambda t: next(iter(t)),
    "len": len,
    "borrow": ext.borrow,
    "own": ext.own,
    "hand": lambda t: ext.hand(t, "numpy"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_it_says_that_it_was_cleared(cleared, asked: str) -> None:
    call: Callable[[object], object] = ASKED[asked]
    with pytest.raises(ext.Error) as caught:
        call(cleared)
    assert caught.value.code == "null_data"
    assert str(caught.value) == "this isthmus.Tensor was cleared by the garbage collector"


def test_its_repr_says_so_too(cleared) -> None:
    assert repr(cleared) == "<isthmus.Tensor, cleared>"


def test_it_may_be_cleared_again(cleared) -> None:
    ext.clear_as_collector(cleared)
    assert repr(cleared) == "<isthmus.Tensor, cleared>"


def test_a_tensor_that_others_hold_is_not_cleared() -> None:
    elements = np.arange(6.0)  # of which the owner knows nothing
    tensor = ext.own_by_python(elements, Owner())
    alias = tensor.as_read_only()
    ext.clear_as_collector(tensor)
    assert np.asarray(alias).tolist() == np.asarray(tensor).tolist() == elements.tolist()
