"""What somebody types in the first hour, and the answers to what cannot work."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")


def test_one_number_is_a_shape() -> None:
    assert isthmus.empty(3).shape == (3,)
    assert isthmus.empty(np.int64(3), dtype="int32").shape == (3,)
    assert isthmus.shared.empty(3).shape == (3,)
    for wrong in (True, 1.5, "3", None):
        with pytest.raises(TypeError, match="expected a tuple of integers"):
            isthmus.empty(wrong)


def test_a_module_names_its_framework() -> None:
    t = isthmus.empty(3)
    assert isinstance(t.to(np), np.ndarray)
    with pytest.raises(ValueError, match="argument 'framework': found 'sys'"):
        t.to(sys)
    with pytest.raises(TypeError, match="expected the name of a framework, or its module, got int"):
        t.to(3)


@pytest.mark.parametrize("name", ["tensorflow", "paddle", "mlx", "cupy"])
def test_a_framework_that_is_not_installed_is_said_to_be_missing(name: str) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    t = isthmus.from_dlpack(np.zeros(4, np.uint8)[1:])  # aligned to nothing
    with pytest.raises(isthmus.Error, match=f"(?s)importing {name} .*No module named '{name}"):
        t.to(name)


KINDS = {
    "a.pt": (b"PK\x03\x04", "zip archive, as torch"),
    "a.npy": (b"\x93NUMPY", "numpy.save"),
    "a.h5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "a.gz": (b"\x1f\x8b\x08", "gzip"),
    "a.pkl": (b"\x80\x05\x95\x0b", "pickle"),
    "x.py": (b"print('not the weights')\n", ""),
    "short": (b"12345678", ""),
    "zeros": (b"", ""),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_another_kind_is_told(tmp_path: Path, name: str) -> None:
    begin, kind = KINDS[name]
    for size in (8, 64):
        (tmp_path / name).write_bytes(begin.ljust(size, b"\0"))
        with pytest.raises(isthmus.Error, match=f"(?s){name}.*not a safetensors file.*{kind}"):
            isthmus.load(tmp_path / name)


def test_what_tab_shows() -> None:
    shown = dir(isthmus)
    assert {"Tensor", "distributed", "empty", "from_dlpack", "load", "load_inline", "shared"} <= set(shown)
    assert not {"Any", "TYPE_CHECKING", "paths", "_rebuild"} & set(shown)
    assert all(hasattr(isthmus, name) for name in shown)
