"""The way out to NumPy as the lite tests see it; the rest stands in tests/frameworks/in_numpy.py."""

from __future__ import annotations

import numpy as np
import pytest

import isthmus_test_ext as ext


def test_like_an_example():
    t = ext.pages([3])
    assert type(ext.hand_like(t, np.zeros(1))) is np.ndarray
    for nothing in (object(), 3, None, "x"):
        assert ext.hand_like(t, nothing) is t


@pytest.mark.parametrize("framework", ["nump", "", "Numpy", "tensor "])
def test_no_such_framework(framework):
    with pytest.raises(ValueError, match="torch") as info:
        ext.pages([3]).to(framework)
    assert "framework" in str(info.value)


@pytest.mark.parametrize(
    ("dtype", "nearest"),
    [
        ("float32x4", "nearest is float32 with a last dimension of 4"),
        ("int4", "nearest is uint8, the bytes"),
        ("opaque64", "nearest is uint64"),
        ("float96", "the nearest, uint96"),
    ],
)
def test_a_dtype_that_numpy_has_not(dtype, nearest):
    with pytest.raises(BufferError, match=nearest) as info:
        ext.pages([4], dtype).to("numpy")
    assert info.value.code == "bad_dtype"


def test_options_are_keywords():
    t = ext.pages([3])
    with pytest.raises(TypeError):
        t.to("numpy", True)
    with pytest.raises(TypeError):
        t.to("numpy", copy=True)
    with pytest.raises(TypeError):
        t.to(3)


def test_absent_framework(child):
    """In a process of its own: what was once found of a framework is kept."""
    child("""
import sys
import isthmus_test_ext as ext
sys.modules["paddle"] = None
try:
    ext.pages([3]).to("paddle")
except ext.Error as error:
    assert error.code == "unavailable"
    assert isinstance(error.__cause__, ImportError)
else:
    raise SystemExit("nothing was refused")
""")


def test_a_subclass_does_not_change_what_comes_out():
    assert type(ext.hand(ext.pages([3]), "numpy")) is np.ndarray


def test_without_numpy(child) -> None:
    child(
        """
        import sys
        sys.modules["numpy"] = None
        import isthmus_test_ext as ext
        try:
            ext.pages([3]).to("numpy")
        except ext.Error as error:
            assert error.code == "unavailable", error
        else:
            raise AssertionError("there is no NumPy")
        """
    )
