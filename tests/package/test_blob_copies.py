"""Copies and edits of a Blob: a description and an owner that belong together, or a refusal."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import pickle
from collections.abc import Callable

import pytest

import isthmus

np = pytest.importorskip("numpy")


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(6, dtype="float32")


EDITS = {
    "shape": {"shape": (3,), "strides": None},
    "shape and strides": {"shape": (3,), "strides": (2,)},
    "strides": {"strides": (0,)},
    "read_only": {"read_only": True},
    "dtype": {"dtype": isthmus.DType("int32")},
    "ptr": {"shape": (2,), "strides": None},
    "shape of two dimensions": {"shape": (2, 3), "strides": (3, 1)},
}


def replaces() -> list[Callable]:
    return [dataclasses.replace, *([copy.replace] if hasattr(copy, "replace") else [])]


@pytest.mark.parametrize("replace", replaces(), ids=lambda f: f.__module__)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_blob_is_what_it_says(x, replace: Callable, edit: str) -> None:
    blob = isthmus.to_blob(x)
    changes = dict(EDITS[edit])
    if edit == "ptr":
        changes["ptr"] = blob.ptr + 8
    try:
        edited = replace(blob, **changes)
    except (TypeError, ValueError):
        return
    t = isthmus.from_blob(edited)
    assert t.data_ptr == edited.ptr
    assert t.shape == edited.shape
    assert edited.strides is None or t.strides == edited.strides
    assert t.dtype == edited.dtype
    assert t.read_only == edited.read_only
    # It still keeps the memory.
    assert t.owner is x
    del blob, edited
    gc.collect()
    assert bytes(memoryview(t)).startswith(np.float32(2 if edit == "ptr" else 0).tobytes())


def test_read_only_memory_stays_so(x) -> None:
    """A blob of read-only memory that says the opposite after an edit is believed by nobody."""
    x.flags.writeable = False
    blob = isthmus.to_blob(x)
    with contextlib.suppress(TypeError, ValueError):
        edited = dataclasses.replace(blob, read_only=False)
        with contextlib.suppress(isthmus.Error):
            assert isthmus.from_blob(edited).read_only == edited.read_only


def test_another_owner_is_held(x) -> None:
    blob = isthmus.to_blob(x)
    with contextlib.suppress(TypeError, ValueError):
        edited = dataclasses.replace(blob, owner="another")
        assert isthmus.from_blob(edited).owner == "another"


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda blob: pickle.loads(pickle.dumps(blob)),
    "pickle 4": lambda blob: pickle.loads(pickle.dumps(blob, protocol=4)),
    "out of band": lambda blob: round_trip_out_of_band(blob),
    "replace": dataclasses.replace,
    "inside a list": lambda blob: copy.deepcopy([blob])[0],
}


def round_trip_out_of_band(blob: isthmus.Blob) -> isthmus.Blob:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(blob, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
@pytest.mark.parametrize("producer", ["numpy", "C++", "bytearray", "capsule"])
def test_a_copy_owns_what_it_points_to(x, way: str, producer: str, read_only: bool) -> None:
    tensor = {
        "numpy": lambda: isthmus.from_dlpack(x),
        "C++": lambda: isthmus.empty((6,)),
        "bytearray": lambda: isthmus.from_dlpack(bytearray(24)),
        "capsule": lambda: isthmus.from_dlpack(isthmus.empty((6,)).__dlpack__(max_version=(1, 0))),
    }[producer]()
    blob = isthmus.to_blob(tensor.as_read_only() if read_only else tensor)
    try:
        copied = COPIES[way](blob)
    except (TypeError, ValueError, isthmus.Error, pickle.PicklingError):
        return
    assert copied.shape == blob.shape
    assert copied.read_only == blob.read_only
    # The address is that of what the copy itself holds.
    assert copied.ptr == isthmus.to_blob(copied.owner).ptr
    assert isthmus.from_blob(copied).data_ptr == copied.ptr
    elements = bytes(memoryview(isthmus.from_blob(blob)))
    del blob, tensor
    gc.collect()
    assert bytes(memoryview(isthmus.from_blob(copied))) == elements


def test_the_fields_as_a_dict_are_taken_back_or_refused(x) -> None:
    """dataclasses.asdict copies the owner, deeply: its address would be the original's."""
    blob = isthmus.to_blob(x)
    try:
        fields = dataclasses.asdict(blob)
        t = isthmus.from_blob({key: value for key, value in fields.items() if not key.startswith("_")})
    except (TypeError, ValueError, isthmus.Error):
        return
    assert t.data_ptr == isthmus.from_dlpack(t.owner).data_ptr
