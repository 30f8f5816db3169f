"""A refused call leaves a capsule to its producer: it can be taken by the next overload, or by somebody else.

Promised (law 4, and DLPack's "Python specification": a consumer renames a capsule only when it takes it): the
descriptor of a capsule is looked at before it is consumed, whatever the reason for the refusal: dtype, rank, sizes,
layout, device, writability.
"""

from __future__ import annotations

from collections.abc import Callable

import capsules
import modules
import numpy as np
import pytest
from casters import CASTERS

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")
calls = modules.load("calls")
versions = pytest.mark.parametrize("version", [(1, 0), None], ids=["versioned", "legacy"])


def capsule_of(a: np.ndarray, version: tuple[int, int] | None) -> object:
    return a.__dlpack__(max_version=version)


@versions
@pytest.mark.parametrize("name", CASTERS)
def test_the_overload_that_fits_gets_it(name: str, version: tuple[int, int] | None) -> None:
    bound = pytest.importorskip(name)
    for a, wanted in (
        (np.zeros(3, np.float32), "float32[:]"),
        (np.zeros(3), "float64[:]"),
        (np.zeros((2, 2), np.float32), "float32[:, :]"),
    ):
        assert bound.which(capsule_of(a, version)) == wanted


@versions
@pytest.mark.parametrize("name", CASTERS)
def test_no_overload_fits(name: str, version: tuple[int, int] | None) -> None:
    bound = pytest.importorskip(name)
    capsule = capsule_of(np.zeros((2, 2, 2)), version)
    with pytest.raises(TypeError):
        bound.which(capsule)
    assert capsules.is_whole(capsule)


WRONG: dict[str, np.ndarray] = {
    "dtype": np.zeros(3),
    "rank": np.zeros((3, 1), np.float32),
    "size": np.zeros(4, np.float32),
}


@versions
@pytest.mark.parametrize("name", WRONG)
def test_an_argument_that_does_not_fit(name: str, version: tuple[int, int] | None) -> None:
    capsule = capsule_of(WRONG[name], version)
    with pytest.raises(ext.Error):
        calls.copy_into(np.zeros(3, np.float32), capsule)
    assert capsules.is_whole(capsule)
    assert ext.own(capsule)["data"] == WRONG[name].ctypes.data


@versions
def test_another_argument_that_does_not_fit(version: tuple[int, int] | None) -> None:
    """What was taken for a call that is then refused was taken: but only after everything that can be known was looked
    at."""
    capsule = capsule_of(np.zeros(3, np.float32), version)
    with pytest.raises(TypeError):
        calls.scale(capsule)
    assert capsules.is_whole(capsule)


SOMEBODYS, USED, USED_VERSIONED = b"somebody's", b"used_dltensor", b"used_dltensor_versioned"


@versions
def test_a_name_that_somebody_else_gave_it_stays(version: tuple[int, int] | None) -> None:
    """What another consumer made of the capsule while the call was refused is not undone."""
    capsule = capsule_of(np.zeros(3, np.float32), version)

    class Renaming:
        def __dlpack__(self, **_: object) -> object:
            capsules.rename(capsule, SOMEBODYS)
            raise ValueError("no")

    with pytest.raises(ext.Error, match="no"):
        calls.copy_into(capsule, Renaming())
    assert "somebody's" in repr(capsule)
    capsules.rename(capsule, USED_VERSIONED if version else USED)  # its memory is given back already


DEVICE: dict[str, Callable] = {
    "from_dlpack(device=)": lambda capsule: isthmus.from_dlpack(capsule, device="cuda:0"),
    "from_dlpack(device=, copy=True)": lambda capsule: isthmus.from_dlpack(capsule, device="cuda:0", copy=True),
    "from_py": lambda capsule: ext.own(capsule, device=(2, 0)),
    "borrow_py": lambda capsule: ext.borrow(capsule, device=(2, 0)),
}


@versions
@pytest.mark.parametrize("name", DEVICE)
def test_wanted_on_another_device(name: str, version: tuple[int, int] | None) -> None:
    """A capsule cannot be asked to move its data: that is what is said, and not that it has no `__dlpack__`."""
    a = np.zeros(3)
    capsule = capsule_of(a, version)
    with pytest.raises(ext.Error) as info:
        DEVICE[name](capsule)
    text = str(info.value)
    assert info.value.code == "bad_device"
    assert "capsule" in text
    assert "cpu" in text
    assert "cuda:0" in text
    assert "__dlpack__" not in text
    assert capsules.is_whole(capsule)
    assert ext.own(capsule)["data"] == a.ctypes.data


@versions
def test_copy_false_on_another_device(version: tuple[int, int] | None) -> None:
    capsule = capsule_of(np.zeros(3), version)
    with pytest.raises(ext.Error) as info:
        isthmus.from_dlpack(capsule, device="cuda:0", copy=False)
    assert info.value.code in ("bad_device", "needs_copy")
    assert capsules.is_whole(capsule)


@versions
def test_a_device_that_is_the_capsules_own(version: tuple[int, int] | None) -> None:
    a = np.zeros(3)
    assert isthmus.from_dlpack(capsule_of(a, version), device="cpu").data_ptr == a.ctypes.data


@versions
def test_a_copy_of_a_capsule(version: tuple[int, int] | None) -> None:
    a = np.arange(3.0)
    t = isthmus.from_dlpack(capsule_of(a, version), copy=True)
    assert t.data_ptr != a.ctypes.data
    assert np.asarray(t).tolist() == [0, 1, 2]


def test_a_stream_of_a_capsule() -> None:
    """Nobody can be asked to order its work: refused for device memory, ignored for the host's."""
    assert ext.own(capsule_of(np.zeros(3), (1, 0)), stream=1)["device"] == "cpu"


@versions
def test_a_copy_that_is_not_wanted(version: tuple[int, int] | None) -> None:
    if version is None:
        pytest.skip("a capsule as before DLPack 1.0 cannot say that it is a copy")
    capsule = np.arange(3.0).__dlpack__(max_version=version, copy=True)
    for call in (ext.own, ext.borrow):
        with pytest.raises(ext.Error, match="copy"):
            call(capsule, device=(1, 0))
        assert capsules.is_whole(capsule)
    assert isthmus.from_dlpack(capsule).shape == (3,)


@versions
def test_a_copy_that_there_is_no_memory_for(version: tuple[int, int] | None) -> None:
    """One element that is repeated needs memory for each of them in a copy."""
    repeated = np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 50,), (0,))
    capsule = capsule_of(repeated, version)
    for call, copy in ((isthmus.from_dlpack, True), (ext.own, "always")):
        with pytest.raises(MemoryError):
            call(capsule, copy=copy)
        assert capsules.is_whole(capsule)
