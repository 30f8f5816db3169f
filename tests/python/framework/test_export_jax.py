"""JAX without 64-bit dtypes: what it would make 32 bits of is refused, also where a copy is allowed."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
isthmus = pytest.importorskip("isthmus")


def aligned(dtype: str) -> np.ndarray:
    """JAX copies what is not aligned to 64 bytes."""
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + 3 * np.dtype(dtype).itemsize].view(dtype)


@pytest.fixture(autouse=True)
def without_64_bits():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("allow_copy", [False, True])
@pytest.mark.parametrize(
    ("dtype", "made"), [("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"), ("complex128", "complex64")]
)
def test_64_bits_are_refused(dtype: str, made: str, allow_copy: bool) -> None:
    with pytest.raises(isthmus.Error) as caught:
        isthmus.from_dlpack(aligned(dtype)).to("jax", allow_copy=allow_copy)
    assert caught.value.code == "bad_dtype"
    assert str(caught.value) == f"jax made {made} of {dtype}; call jax.config.update('jax_enable_x64', True) first"


@pytest.mark.parametrize("allow_copy", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64", "int8"])
def test_the_others_are_taken(dtype: str, allow_copy: bool) -> None:
    assert isthmus.from_dlpack(aligned(dtype)).to("jax", allow_copy=allow_copy).dtype == dtype


def test_64_bits_are_taken_where_jax_has_them() -> None:
    jax.config.update("jax_enable_x64", True)
    assert isthmus.from_dlpack(aligned("float64")).to("jax").dtype == "float64"


def test_a_copy_that_is_asked_for_keeps_the_dtype() -> None:
    x = np.arange(7, dtype=np.float32)[1:]
    assert isthmus.from_dlpack(x).to("jax", allow_copy=True).tolist() == x.tolist()
