# SPDX-License-Identifier: Apache-2.0
"""The same exchange from several threads at once: what one costs when all want the interpreter, and when nobody has to.

Usage: threads.py MODULES ROUNDS
Run by the interpreter that is asked: prints one JSON object, nanoseconds by number of threads and library, of arrays of
its own standard library.
"""

from __future__ import annotations

import array
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import build
from peers import Peers

Result = dict[str, Any]
CALLS = 40_000
THREADS = (1, 2, 4, 8)
#: Names a CPython without the GIL, to measure there too.
FREE_THREADED = "ISTHMUS_FREE_THREADED_PYTHON"


def wall(function: Callable[[Any], Any], each: list[Any]) -> float:
    """Nanoseconds of wall time per call, over all threads; each has an argument of its own in `each`, or the same."""
    threads = len(each)
    ready = threading.Barrier(threads + 1)
    calls = range(CALLS // threads)

    def work(x: Any) -> None:
        ready.wait()
        for _ in calls:
            function(x)

    workers = [threading.Thread(target=work, args=(x,)) for x in each]
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
            empty = min(empty, wall(floor.empty, [x] * threads))
            for name, taken in turns.items():
                taken.append(wall(functions[name], [x] * threads))
        least = {name: max(min(taken) - empty, 0.1) for name, taken in turns.items()}
        results += [
            {
                "row": f"torch → C++, owned, {threads} thread{'s' * (threads != '1')}",
                "group": "threads",
                "library": name,
                "version": peers.version(name),
                "ns": round(ns, 1),
                "ratio_to_floor": round(ns / least["floor"], 3),
            }
            for name, ns in least.items()
        ]
    return results + with_and_without_the_gil(peers, rounds, say)


def measure(functions: dict[str, Callable[[Any], Any]], rounds: int) -> dict[int, dict[str, float]]:
    """Nanoseconds by number of threads and function, the loop around the call included. Each thread has an array of its
    own: what they would share is a count of references, which is Python's."""
    found: dict[int, dict[str, float]] = {}
    for threads in THREADS:
        each = [array.array("f", bytes(4000)) for _ in range(threads)]
        best = dict.fromkeys(functions, float("inf"))
        for _ in range(max(3, rounds // 3)):
            for name, function in functions.items():
                best[name] = min(best[name], wall(function, each))
        found[threads] = {name: round(ns, 1) for name, ns in best.items()}
    return found


def measured_by(python: str, rounds: int) -> dict[str, dict[str, float]]:
    """What this file says when that interpreter runs it. Raises Unavailable."""
    for peer in build.PEER_LIST:
        if peer.name in ("floor", "isthmus"):
            build.build_for(python, peer)
    done = subprocess.run(
        [python, __file__, str(build.MODULES), str(rounds)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise build.Unavailable((done.stderr.strip().splitlines() or ["failed"])[-1])
    counted: dict[str, dict[str, float]] = json.loads(done.stdout)
    return counted


def with_and_without_the_gil(peers: Peers, rounds: int, say: Callable[[str], None]) -> list[Result]:
    """The same exchange, in the interpreter that runs this and in one without the GIL where the environment names
    one."""
    free = os.environ.get(FREE_THREADED, "")
    results: list[Result] = []
    for python, how in ((sys.executable, "with the GIL"), (free, "without the GIL")):
        row, base = f"array.array → C++, owned, {how}", {"group": "threads", "ns": None, "ratio_to_floor": None}
        say(row)
        try:
            if not python:
                raise build.Unavailable(f"{FREE_THREADED} names no CPython without the GIL")
            counted = measured_by(python, rounds)
        except (build.Unavailable, OSError) as why:
            results.append({"row": row, "library": "isthmus", "version": "", **base, "why_not": str(why)[:200]})
            continue
        for threads, figures in counted.items():
            for name, ns in figures.items():
                of_one = counted["1"][name]
                results.append(
                    {
                        **base,
                        "row": f"{row}, {threads} thread{'s' * (threads != '1')}",
                        "library": name,
                        "version": peers.version(name),
                        "ns": ns,
                        "ratio_to_floor": round(ns / figures["floor"], 3),
                        "note": f"{of_one / ns:.2f} of the calls that one thread makes in this time, the loop counted",
                    }
                )
    return results


def main(modules: str, rounds: str) -> None:
    sys.path.insert(0, modules)
    names = {"floor": "own_buffer", "isthmus": "own"}
    functions = {name: getattr(importlib.import_module(f"bench_{name}"), function) for name, function in names.items()}
    if getattr(sys, "_is_gil_enabled", lambda: True)() and "free-threading" in sys.version:
        sys.exit("a module has switched the GIL on")
    print(json.dumps(measure(functions, int(rounds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
