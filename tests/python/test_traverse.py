"""A type of C code that holds a Tensor shows the collector what keeps it: isthmus::traverse()."""

from __future__ import annotations

import ctypes
import gc
import weakref

import pytest

import isthmus_test_ext as ext


class Owner:
    """Keeps the memory of an array, and whatever holds that."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_float * 2)(1, 2)
        self.held: list[object] = []

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (2,), "typestr": "<f4", "data": (ctypes.addressof(self.memory), False), "version": 3}


def is_gone(owner: object) -> bool:
    """After a collection; the caller has dropped its own references."""
    gc.collect()
    return owner() is None


def test_a_cycle_by_way_of_the_owner_is_found() -> None:
    owner = Owner()
    owner.held.append(ext.Holder(owner))
    seen = weakref.ref(owner)
    del owner
    assert seen() is not None
    assert is_gone(seen)


def test_what_somebody_else_holds_stays() -> None:
    owner = Owner()
    holder = ext.Holder(owner)
    owner.held.append(holder)
    seen = weakref.ref(owner)
    del owner
    assert not is_gone(seen)
    assert memoryview(holder.tensor()).tolist() == [1, 2]
    del holder
    assert is_gone(seen)


@pytest.mark.parametrize("way", ["share", "part", "tensor"])
def test_a_handle_that_is_shared_shows_nothing(way: str) -> None:
    """The other one may be anybody's: the owner must not be cleared under it."""
    owner = Owner()
    holder = ext.Holder(owner)
    other = getattr(holder, way)()
    owner.held.append(holder)
    seen = weakref.ref(owner)
    del owner, holder
    assert not is_gone(seen)
    shown = other if way == "tensor" else other.tensor()
    assert memoryview(shown).tolist() == [1, 2][: 1 if way == "part" else 2]
    del other, shown
    assert is_gone(seen)


def test_the_instance_and_its_view_in_one_cycle() -> None:
    owner = Owner()
    owner.held += [ext.Holder(owner).part()]
    seen = weakref.ref(owner)
    del owner
    assert is_gone(seen)
