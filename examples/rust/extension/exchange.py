"""Python's side of the module `rusty`: what its functions do with NumPy's arrays, and with torch's tensors.

Usage: exchange.py [torch], with rusty.abi3.so on Python's path.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Callable

import numpy as np
import rusty


def refusal(function: Callable[..., object], *arguments: object) -> str:
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it was taken")


def exchange(vector: Callable[[list[float]], object]) -> None:
    x = vector([0, 1, 2, 3])
    references = sys.getrefcount(x)
    assert rusty.scale(x, 2.0) is x
    assert x.tolist() == [0, 2, 4, 6]
    assert rusty.dot(x, np.ones(4, np.float32)) == 12
    squares = rusty.squares(x)
    assert type(squares) is type(x)
    assert squares.tolist() == [0, 4, 16, 36]
    assert rusty.reshaped(x, 2).tolist() == [[0, 2], [4, 6]]
    rusty.keep(x)
    assert rusty.kept(x) is x
    assert sys.getrefcount(x) == references
    print(
        f"{type(x).__name__}: written in place, read, made by Rust, kept and given back as the same object"
    )


def owners() -> None:
    x = np.ones(4, np.float32)
    gone = weakref.ref(x)
    rusty.keep(x)
    del x
    gc.collect()
    assert gone() is not None
    rusty.keep(np.zeros(1, np.float32))
    while gone() is not None:
        time.sleep(0.001)
    print(
        "an array lives as long as Rust holds it, and is dropped on a thread of Rust's"
    )


def refused() -> None:
    locked = np.ones(4, np.float32)
    locked.flags.writeable = False
    print(refusal(rusty.scale, np.zeros(3), 2.0))
    print(refusal(rusty.scale, locked, 2.0))
    assert locked.tolist() == [1, 1, 1, 1]
    assert rusty.dot(locked, locked) == 4


if __name__ == "__main__":
    exchange(lambda values: np.array(values, np.float32))
    if "torch" in sys.argv:
        import torch

        exchange(lambda values: torch.tensor(values, dtype=torch.float32))
    owners()
    refused()
