# SPDX-License-Identifier: Apache-2.0
"""The exchanges whose instructions and allocations are counted, each as (row, library, function, argument)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

Case = tuple[str, str, Any, Any]

#: Library → module: the bridge as a library, compiled into the module's one file, and behind the package's table.
OURS = {
    "isthmus": "bench_isthmus",
    "isthmus header-only": "bench_isthmus_header_only",
    "isthmus, stable ABI": "bench_isthmus_abi3",
}
#: Row → the floor's function, and ours.
NUMPY = {
    "numpy → C++, borrowed": ("borrow_numpy", "borrow"),
    "numpy → C++, owned": ("own_numpy", "own"),
    "numpy: there and back": ("round_trip_numpy", "round_trip"),
    "C++ → numpy": ("to_numpy", "to_numpy"),
    "C++ → capsule": ("to_capsule", "to_capsule"),
    "std::vector → capsule": ("vector_to_capsule", "vector_to_capsule"),
}
TORCH = {
    "torch → C++, borrowed": ("borrow_inside", "borrow"),
    "torch → C++, owned": ("own_inside", "own"),
    "torch: there and back": ("round_trip_inside", "round_trip"),
    "C++ → torch": ("to_torch_shims", "to_torch"),
}
#: Through the buffer protocol, the floor of arrays that have no struct to read.
JAX = {
    "jax → C++, borrowed": ("borrow_buffer", "borrow"),
    "jax → C++, owned": ("own_buffer", "own"),
}


def cases(modules: str, frameworks: tuple[str, ...]) -> Iterator[Case]:
    """Of NumPy, and of the `frameworks` beside it."""
    sys.path.insert(0, modules)
    if "torch" in frameworks:
        import torch
    import numpy as np

    floor = importlib.import_module("bench_floor")
    floor.load_numpy()
    ours = [(name, importlib.import_module(module)) for name, module in OURS.items()]
    floor.set_size(1000)
    x = np.zeros(1000, np.float32)
    for _, module in ours:
        module.set_size(1000)
        module.hold(x)

    def listed(rows: dict[str, tuple[str, str]], argument: Any) -> Iterator[Case]:
        for row, (by_hand, function) in rows.items():
            yield row, "floor", getattr(floor, by_hand), argument
            for name, module in ours:
                yield row, name, getattr(module, function), argument

    yield from listed(NUMPY, x)
    if "torch" in frameworks and floor.load_shims():
        floor.load_exchange(torch.Tensor)
        yield from listed(TORCH, torch.zeros(1000))
    if "jax" in frameworks:
        import jax

        yield from listed(JAX, jax.numpy.zeros(1000))
