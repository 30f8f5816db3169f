# SPDX-License-Identifier: Apache-2.0
"""Runs in a child: the cases one by one, under callgrind or with the counting allocator preloaded.

Usage: run_cases.py instructions|allocations MODULES [torch] [jax]
Prints one JSON line: the cases in order, with their allocations per call where those are counted.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import cases

TIMES = 1000


def main(what: str, modules: str, *also: str) -> None:
    listed = []
    every = list(cases(modules, also))
    import bench_floor

    count = getattr(ctypes.CDLL(None), "isthmus_bench_allocations", None)
    if what == "instructions":
        every.insert(0, ("empty", "floor", bench_floor.empty, None))
    for row, library, function, x in every:
        for _ in range(20):  # what is looked up once is looked up now
            function(x)
        if what == "instructions":
            bench_floor.repeat(function, x, TIMES)
            listed.append((row, library, None))
        else:
            assert count is not None, "the counting allocator is not preloaded"
            before = count()
            bench_floor.repeat(function, x, TIMES)
            listed.append((row, library, round((count() - before) / TIMES, 2)))
    print(json.dumps(listed))


if __name__ == "__main__":
    main(*sys.argv[1:])
