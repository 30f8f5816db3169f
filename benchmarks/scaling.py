#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many exchanges all threads of a process make together, beside one thread:
with the GIL and without (docs/threads.md).

Usage:
    benchmarks/scaling.py [--also PYTHON ...] [--rounds N] [--turn-ms MS] [--output FILE]

--also names further interpreters, which need NumPy and nothing else: one without the GIL is what this is for. All take
their turns in every round, so that whatever else the machine does meets all of them alike. A thread's turn is given by
the clock, and its work is a loop of C++ or of Python: see ROWS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MODULE = "bench_isthmus_threads"
THREADS = (1, 2, 4, 8)
#: Exchanges between two looks at the clock, a tenth of a millisecond or so.
CHUNK = 500
ELEMENTS = 1000
ASK = """
import json, sys, sysconfig, numpy
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3] + "t" * free, "numpy": numpy.__version__,
                  "suffix": sysconfig.get_config_var("EXT_SUFFIX"), "include": sysconfig.get_path("include")}))
"""


@dataclass(frozen=True)
class Row:
    """`function` of the module; `same`: all threads have one array; `calls`: each exchange is a call from Python."""

    name: str
    function: str
    same: bool = False
    calls: bool = False


#: The first row is what the machine gives to threads that share nothing, the one to judge the others by. Those of
#: CPython alone are what the references to one array cost that the row before them has to take.
CONTROL = Row("arithmetic alone", "arithmetic")
EMPTY = Row("a call from Python that does nothing", "nothing", calls=True)
ROWS = [
    CONTROL,
    Row("borrowed, an array each", "borrowed"),
    Row("borrowed, the same array", "borrowed", same=True),
    Row("owned, an array each", "owned"),
    Row("owned, the same array", "owned", same=True),
    Row("CPython alone: a reference to the same array", "one_reference", same=True),
    Row("there and back, an array each", "there_and_back"),
    Row("there and back, the same array", "there_and_back", same=True),
    Row("CPython alone: two references to the same array", "two_references", same=True),
    Row("C++ → numpy, a tensor each", "handed_out"),
    EMPTY,
    Row("borrowed by a call from Python, an array each", "borrowed", calls=True),
    Row("owned by a call from Python, an array each", "owned", calls=True),
]


@dataclass(frozen=True)
class Turn:
    rate: float  # exchanges of all threads in a second of wall time
    cpu_ns: float  # processor time of one exchange


def in_a_loop(function: Callable[[Any, int], Any], x: Any) -> None:
    function(x, CHUNK)


def by_calls(function: Callable[[Any, int], Any], x: Any) -> None:
    for _ in range(CHUNK):
        function(x, 1)


def take_turn(row: Row, module: Any, arrays: Sequence[Any], threads: int, seconds: float) -> Turn:
    """One turn of so many threads: what all of them have done until the same moment."""
    function = getattr(module, row.function)
    work = by_calls if row.calls else in_a_loop
    until = 0.0

    def begin() -> None:
        nonlocal until
        until = time.perf_counter() + seconds

    ready = threading.Barrier(threads, begin)

    def run(thread: int) -> tuple[int, int, float]:
        """Chunks in time, all chunks, and the processor's seconds for them."""
        x = arrays[0 if row.same else thread]
        try:
            work(function, x)
        except BaseException:
            ready.abort()
            raise
        ready.wait()
        in_time, late, cpu = 0, False, time.thread_time()
        while not late:
            work(function, x)
            late = time.perf_counter() > until
            in_time += not late
        return in_time, in_time + 1, time.thread_time() - cpu

    with ThreadPoolExecutor(threads) as pool:
        taken = [pool.submit(run, thread) for thread in range(threads)]
    failed = [error for future in taken if (error := future.exception())]
    for error in sorted(failed, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    in_time, done, cpu = (sum(column) for column in zip(*(future.result() for future in taken), strict=True))
    return Turn(max(in_time, 1) * CHUNK / seconds, cpu / (done * CHUNK) * 1e9)


def one_round(module: Any, arrays: Sequence[Any], seconds: float) -> list[list[Turn]]:
    """A turn of every row on every number of threads."""
    return [[take_turn(row, module, arrays, threads, seconds) for threads in THREADS] for row in ROWS]


def summary(rounds: Sequence[Sequence[Sequence[Turn]]]) -> list[dict[str, Any]]:
    """Of each row on each number of threads: the median over all rounds of the rate beside the same round's single
    thread, and beside what arithmetic alone gained in it; and the processor's nanoseconds."""
    rows = []
    for number, row in enumerate(ROWS):
        for column, threads in enumerate(THREADS):
            gains = [round_[number][column].rate / round_[number][0].rate for round_ in rounds]
            machine = [round_[0][column].rate / round_[0][0].rate for round_ in rounds]
            rows.append(
                {
                    "row": row.name,
                    "threads": threads,
                    "gain": round(statistics.median(gains), 2),
                    "of_the_machine": round(statistics.median(g / m for g, m in zip(gains, machine, strict=True)), 2),
                    "cpu_ns": round(statistics.median(round_[number][column].cpu_ns for round_ in rounds), 1),
                }
            )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: the gain on each number of threads, and the processor's nanoseconds on one and on two."""
    heads = [*(f"{n} threads" for n in THREADS[1:]), "ns on 1 thread", "ns on 2"]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for row in ROWS:
        of = {found["threads"]: found for found in rows if found["row"] == row.name}
        cells = [*(f"{of[n]['gain']:.2f} ({of[n]['of_the_machine']:.2f})" for n in THREADS[1:])]
        cells += [f"{of[n]['cpu_ns']:.0f}" for n in (1, 2)]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def serve(folder: str) -> None:
    """A worker: a line with the seconds of a turn comes in, the turns of a round go out."""
    import numpy as np

    sys.path.insert(0, folder)
    module = __import__(MODULE)
    arrays = [np.zeros(ELEMENTS, np.float32) for _ in range(max(THREADS))]
    for line in sys.stdin:
        turns = one_round(module, arrays, float(line))
        print(json.dumps([[(turn.rate, turn.cpu_ns) for turn in row] for row in turns]), flush=True)


class Worker:
    """An interpreter with the module, which takes its rounds when it is asked."""

    def __init__(self, python: str) -> None:
        import build

        shown = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
        if shown.returncode:
            last = (shown.stderr.strip().splitlines() or ["no output"])[-1]
            sys.exit(f"{python}: {last}; expected an interpreter with NumPy ({python} -m pip install numpy)")
        self.about = json.loads(shown.stdout)
        folder = build.MODULES / self.about["python"]
        folder.mkdir(parents=True, exist_ok=True)
        recipe = replace(build.isthmus_recipe(), sources=[build.PEERS / "isthmus_threads/module.cpp"])
        out = folder / (MODULE + self.about.pop("suffix"))
        build.run(build.module_command(recipe, out, f"-I{self.about.pop('include')}"), folder / "build.log")
        self.process = subprocess.Popen(
            [python, __file__, "--serve", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rounds: list[list[list[Turn]]] = []

    def take_round(self, seconds: float) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"CPython {self.about['python']} ended with status {self.process.wait()}")
        self.rounds.append([[Turn(*turn) for turn in row] for row in json.loads(answer)])

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def load_average() -> float:
    return round(os.getloadavg()[0], 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", nargs="+", default=[], metavar="PYTHON", help="further interpreters, with NumPy")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--turn-ms", type=float, default=50)
    parser.add_argument("--output", type=Path, metavar="FILE", help="everything measured, as JSON")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    workers = [Worker(python) for python in [sys.executable, *options.also]]
    loads = [load_average()]
    for number in range(options.rounds):
        print(f"[isthmus] round {number + 1}/{options.rounds}", file=sys.stderr, flush=True)
        for worker in workers:
            worker.take_round(options.turn_ms / 1000)
        loads.append(load_average())
    results = []
    for worker in workers:
        worker.end()
        results.append({**worker.about, "rows": summary(worker.rounds)})
        print(f"\nCPython {worker.about['python']}, NumPy {worker.about['numpy']}\n\n{table(results[-1]['rows'])}")
    cores = os.cpu_count()
    print(
        f"\n{cores} cores, load {min(loads)} to {max(loads)}, {options.rounds} rounds of {options.turn_ms:g} ms a turn"
    )
    if options.output:
        options.output.write_text(
            json.dumps({"cores": cores, "loads": loads, "interpreters": results}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
