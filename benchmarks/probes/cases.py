# SPDX-License-Identifier: Apache-2.0
"""The exchanges whose instructions and allocations are counted, each as (row, library, function, argument)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

Case = tuple[str, str, Any, Any]


def cases(modules: str, with_torch: bool) -> Iterator[Case]:
    sys.path.insert(0, modules)
    if with_torch:
        import torch
    import numpy as np

    floor, ours = importlib.import_module("bench_floor"), importlib.import_module("bench_isthmus")
    floor.load_numpy()
    floor.set_size(1000)
    ours.set_size(1000)
    x = np.zeros(1000, np.float32)
    ours.hold(x)
    yield "numpy → C++, borrowed", "floor", floor.borrow_numpy, x
    yield "numpy → C++, borrowed", "isthmus", ours.borrow, x
    yield "numpy → C++, owned", "floor", floor.own_numpy, x
    yield "numpy → C++, owned", "isthmus", ours.own, x
    yield "numpy: there and back", "floor", floor.round_trip_numpy, x
    yield "numpy: there and back", "isthmus", ours.round_trip, x
    yield "C++ → numpy", "floor", floor.to_numpy, x
    yield "C++ → numpy", "isthmus", ours.to_numpy, x
    yield "C++ → capsule", "floor", floor.to_capsule, x
    yield "C++ → capsule", "isthmus", ours.to_capsule, x
    yield "std::vector → capsule", "floor", floor.vector_to_capsule, x
    yield "std::vector → capsule", "isthmus", ours.vector_to_capsule, x
    if not with_torch or not floor.load_shims():
        return
    floor.load_exchange(torch.Tensor)
    t = torch.zeros(1000)
    yield "torch → C++, borrowed", "floor", floor.borrow_inside, t
    yield "torch → C++, borrowed", "isthmus", ours.borrow, t
    yield "torch → C++, owned", "floor", floor.own_inside, t
    yield "torch → C++, owned", "isthmus", ours.own, t
    yield "torch: there and back", "floor", floor.round_trip_inside, t
    yield "torch: there and back", "isthmus", ours.round_trip, t
    yield "C++ → torch", "floor", floor.to_torch_shims, t
    yield "C++ → torch", "isthmus", ours.to_torch, t
