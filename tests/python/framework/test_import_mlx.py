"""An array of MLX comes in by its capsule, never by its buffer, and is not asked whether it may be written: it always
may. MLX itself is tested in tests/frameworks; here a class in its place counts what it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest


def legacy(module: str) -> object:
    """float32[5] by a legacy capsule, 12 other bytes by the buffer protocol; `asked` has what else was looked for."""

    class Array(bytearray):
        memory = np.zeros(5, np.float32)
        asked: ClassVar[list[str]] = []

        def __dlpack__(self, **_: object) -> object:
            return self.memory.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        @property
        def __array_interface__(self) -> dict:
            self.asked.append("__array_interface__")
            return {"data": (0, True)}

    Array.__module__, Array.__name__, Array.__qualname__ = module, "array", "array"
    return Array(12)


def test_by_its_capsule_and_not_asked(take: Callable) -> None:
    x = legacy("mlx.core")
    found = take(x)
    assert (found["data"], found["shape"], found["read_only"], x.asked) == (x.memory.ctypes.data, (5,), False, [])


def test_subclass(take: Callable) -> None:
    x = type("mine", (type(legacy("mlx.core")),), {})(12)
    assert (take(x)["read_only"], x.asked) == (False, [])


@pytest.mark.parametrize("module", ["mlx", "mine.mlx.core"])
def test_another_of_that_name_is_asked(take: Callable, module: str) -> None:
    x = legacy(module)
    assert take(x)["read_only"]
    assert x.asked == ["__array_interface__"]


@pytest.mark.parametrize("raised", [BufferError, TypeError, NotImplementedError])
def test_its_buffer_is_no_second_way(take: Callable, refused: Callable, raised: type[Exception]) -> None:
    x = legacy("mlx.core")

    def cannot(self: object, **_: object) -> object:
        raise raised("cannot")

    type(x).__dlpack__ = cannot
    assert "cannot" in str(refused("producer_failed", BufferError, take, x))
