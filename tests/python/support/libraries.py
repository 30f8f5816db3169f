"""What the tests ask of the versions they find: NumPy's capsules, whatever it knows of DLPack,
and libraries that fit."""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from types import ModuleType

import numpy as np
import pytest


def release(text: str) -> tuple[int, int]:
    """(2, 9) of "2.9.1+cpu"."""
    found = re.match(r"(\d+)\.(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2])


#: Before, `__dlpack__` takes nothing but `stream`, and its capsules are as before DLPack 1.0.
NUMPY_KNOWS_VERSIONS = release(np.__version__) >= (2, 1)


def export(array: np.ndarray, **options: object) -> object:
    """`array.__dlpack__(**options)`, of a producer that knows every keyword and may answer with an older capsule."""
    if not NUMPY_KNOWS_VERSIONS:
        assert not options.pop("copy", None), "an older NumPy copies nothing"
        options.pop("max_version", None)
    return array.__dlpack__(**options)


def capsule(array: np.ndarray, max_version: tuple[int, int] | None = None) -> object:
    """One as of DLPack 1.0 where a version is given: NumPy's own if it makes them. Else one as before."""
    producer = array
    if max_version and not NUMPY_KNOWS_VERSIONS:
        producer = importlib.import_module("isthmus").from_dlpack(array)
    return producer.__dlpack__(**({"max_version": max_version} if max_version else {}))


def numpy_wanted(name: str) -> tuple[int, int]:
    """The oldest NumPy that an installed library asks for."""
    asked = [re.match(r"numpy\b.*?>=([\d.]+)", text) for text in metadata.requires(name) or []]
    return min((release(found[1]) for found in asked if found), default=(0, 0))


def is_usable(name: str) -> bool:
    """Whether a library is installed, and not meant for a newer NumPy alone."""
    return importlib.util.find_spec(name) is not None and numpy_wanted(name) <= release(np.__version__)


def library(name: str) -> ModuleType:
    """A library that a test needs; it skips where that is missing, or wants a newer NumPy."""
    if importlib.util.find_spec(name) is not None and not is_usable(name):
        wanted = "{}.{}".format(*numpy_wanted(name))
        pytest.skip(f"{name} {metadata.version(name)} needs NumPy {wanted} or newer, and this is {np.__version__}")
    return pytest.importorskip(name)


def from_torch(oldest: str, what: str) -> pytest.MarkDecorator:
    """Skips a test of what the C interfaces of an older PyTorch cannot do: from_torch("2.14", "a read in place")."""
    found = metadata.version("torch") if importlib.util.find_spec("torch") else "0.0"
    return pytest.mark.skipif(
        release(found) < release(oldest), reason=f"{what} from PyTorch {oldest} on; this is {found}"
    )
