# SPDX-License-Identifier: Apache-2.0
"""Memory that an exchange adds: resident memory before and after, of one large tensor held and of many small ones
passed."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from peers import Peers

Result = dict[str, Any]
ELEMENTS = 50_000_000  # 190.7 MiB of float32
MANY = 100_000


def resident() -> float:
    """MiB that this process holds in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def all_results(peers: Peers, say: Any) -> list[Result]:
    import numpy as np
    import torch

    say("memory added")
    ours = peers.get("isthmus")
    if ours is None or not Path("/proc/self/statm").exists():
        return []
    results: list[Result] = []

    def row(name: str, library: str, mib: float) -> None:
        results.append(
            {
                "row": name,
                "group": "memory",
                "library": library,
                "version": peers.version(library),
                "ns": None,
                "value": round(max(mib, 0.0), 1),
                "unit": "MiB added",
                "ratio_to_floor": None,
            }
        )

    held = "memory: 190.7 MiB taken in and held"
    for name, x in (("numpy", np.ones(ELEMENTS, np.float32)), ("torch", torch.ones(ELEMENTS))):
        before = resident()
        ours.hold(x)
        row(f"{held} ({name})", "isthmus", resident() - before)
        before = resident()
        copy = x.copy() if name == "numpy" else x.clone()
        row(f"{held} ({name})", "numpy.copy" if name == "numpy" else "torch.clone", resident() - before)
        del copy
        ours.hold(np.zeros(1000, np.float32))
        del x
    small = np.zeros(1000, np.float32)
    for name, call in (("in and dropped", ours.own), ("out and dropped", ours.to_numpy)):
        before = resident()
        for _ in range(MANY):
            call(small)
        row(f"memory: {MANY:,} exchanges, {name}", "isthmus", resident() - before)
    return results
