# SPDX-License-Identifier: Apache-2.0
"""The same exchange from several threads at once: what one costs when all want the interpreter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from peers import Peers

Result = dict[str, Any]
CALLS = 40_000
THREADS = (1, 2, 4, 8)


def wall(function: Callable[[Any], Any], x: Any, threads: int) -> float:
    """Nanoseconds of wall time per call, over all threads."""
    ready = threading.Barrier(threads + 1)
    calls = range(CALLS // threads)

    def work() -> None:
        ready.wait()
        for _ in calls:
            function(x)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - start) / (len(calls) * threads) * 1e9


def all_results(peers: Peers, rounds: int, say: Callable[[str], None]) -> list[Result]:
    import torch

    x = torch.zeros(1000)
    floor = peers.get("floor")
    functions = {
        "floor": floor.own_inside,
        "isthmus": peers.get("isthmus").own,
        "nanobind": peers.get("nanobind") and peers.get("nanobind").own,
        "dlpark": peers.get("dlpark") and peers.get("dlpark").own,
    }
    results: list[Result] = []
    for threads in THREADS:
        say(f"{threads} threads")
        empty = float("inf")
        turns: dict[str, list[float]] = {name: [] for name, function in functions.items() if function}
        for _ in range(max(3, rounds // 3)):
            empty = min(empty, wall(floor.empty, x, threads))
            for name, taken in turns.items():
                taken.append(wall(functions[name], x, threads))
        least = {name: max(min(taken) - empty, 0.1) for name, taken in turns.items()}
        results += [
            {
                "row": f"torch → C++, owned, {threads} threads",
                "group": "threads",
                "library": name,
                "version": peers.version(name),
                "ns": round(ns, 1),
                "ratio_to_floor": round(ns / least["floor"], 3),
            }
            for name, ns in least.items()
        ]
    return results
