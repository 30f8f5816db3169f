"""Bare capsules, of both kinds and from real producers."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import isthmus_test_ext as ext


@pytest.mark.parametrize("version", [(1, 0), None])
def test_taken_once(take, refused, version: tuple[int, int] | None) -> None:
    a = np.arange(6, dtype=np.float32)
    capsule = a.__dlpack__(max_version=version)
    found = take(capsule)
    assert (found["data"], found["shape"]) == (a.ctypes.data, (6,))
    error = refused("consumed_capsule", ValueError, take, capsule)
    assert "used_dltensor" in str(error)


def test_read_only_flag(take, refused) -> None:
    a = np.zeros(3)
    a.flags.writeable = False
    capsule = a.__dlpack__(max_version=(1, 0))
    refused("read_only", BufferError, take, capsule, require_writable=True)
    assert take(capsule)["read_only"]


def test_copied_flag(take, refused) -> None:
    capsule = np.zeros(3).__dlpack__(max_version=(1, 0), copy=True)
    refused("needs_copy", BufferError, take, capsule)
    assert take(capsule, copy="if_needed")["copied"]


def test_of_another_name(take, refused) -> None:
    import datetime

    assert "datetime" in str(refused("bad_capsule", ValueError, take, datetime.datetime_CAPI))


def test_references_are_exact() -> None:
    a = np.zeros(3)
    before = sys.getrefcount(a)
    for version in ((1, 0), None):
        ext.borrow(a.__dlpack__(max_version=version))
        ext.own(a.__dlpack__(max_version=version))
        with pytest.raises(ext.Error):
            ext.own(a.__dlpack__(max_version=version), device=(2, 0))
        unused = a.__dlpack__(max_version=version)
        assert sys.getrefcount(a) == before + 1
        del unused
    assert sys.getrefcount(a) == before


def test_torch(take) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0)[1:]
    for capsule in (torch.to_dlpack(x), x.__dlpack__(), x.__dlpack__(max_version=(1, 0))):
        assert take(capsule)["data"] == x.data_ptr()


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_a_tensor_is_given_back_to_its_own_capsule_alone(version) -> None:
    options = {} if version is None else {"max_version": version}
    t, other = ext.pages([3], data=np.arange(3, dtype=np.float32)), ext.pages([5])
    mine, foreign = t.__dlpack__(**options), other.__dlpack__(**options)
    ext.give_back(ext.keep(mine), foreign)
    assert ext.own(foreign)["shape"] == (5,)
    with pytest.raises(ext.Error) as caught:
        ext.own(mine)
    assert caught.value.code == "consumed_capsule"
    mine = t.__dlpack__(**options)
    ext.give_back(ext.keep(mine), mine)
    assert ext.own(mine)["data"] == t.data_ptr
