#!/usr/bin/env python3
"""What it costs to hand an array from one side to the other: the pointer, or the elements.

Usage:
    benchmarks/cost_study.py [--largest BYTES] [--json FILE] [--markdown FILE] [--picture FILE]

Every way is measured in a process of its own, so that its peak of memory is its own: a float32 tensor of 1 kB to 1 GB
goes from the producer to the consumer, which reads one element. Small sizes are repeated and the fastest round counts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import platform
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

SIZES = [10**exponent for exponent in range(3, 10)]
BUDGET = 0.5  # seconds of rounds for one cell
WAYS = {
    "zero-copy": "isthmus: the pointer and the owner",
    "clone": "one copy of the elements in C (torch.clone)",
    "shared memory": "into a shared-memory segment, and a view of it on the other side",
    "torch.save": "torch.save and torch.load, through memory",
    "pickle": "pickle protocol 5, dumps and loads",
    "element by element": "tolist() and a new tensor: every element a Python object",
}
COLOURS = dict(zip(WAYS, ("#c0392b", "#2c7fb8", "#f0a30a", "#4d9221", "#777777", "#8e44ad"), strict=True))
# Pages that any call touches.
NOISE = 70_000
# Minutes, and tens of gigabytes, beyond this.
LARGEST_BY_ELEMENT = 10**7


def make_crossing(way: str, x: Any) -> Callable[[], Any]:
    """A function that takes x to the other side and gives what arrived there."""
    import numpy as np
    import torch

    if way == "zero-copy":
        import isthmus

        def cross() -> Any:
            return isthmus.from_dlpack(x).to("numpy")  # torch here, NumPy there

    elif way == "clone":

        def cross() -> Any:
            return x.clone()

    elif way == "shared memory":

        def cross() -> Any:
            segment = shared_memory.SharedMemory(create=True, size=x.nbytes)
            there = np.ndarray(x.shape, np.float32, buffer=segment.buf)
            np.copyto(there, x.numpy())
            opened = shared_memory.SharedMemory(segment.name)  # as the other process would
            seen = np.ndarray(x.shape, np.float32, buffer=opened.buf)
            value = seen[-1]
            del there, seen
            opened.close()
            segment.close()
            segment.unlink()
            return [value]

    elif way == "torch.save":

        def cross() -> Any:
            file = io.BytesIO()
            torch.save(x, file)
            file.seek(0)
            return torch.load(file)

    elif way == "pickle":

        def cross() -> Any:
            return pickle.loads(pickle.dumps(x, protocol=5))

    else:

        def cross() -> Any:
            return torch.tensor(x.tolist())

    return cross


def status_kb(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def first_crossing(cross: Callable[[], Any], last: float) -> tuple[int, float]:
    """Bytes by which one crossing raises the resident memory at its highest, and its seconds.
    What arrives is looked at."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = status_kb("VmRSS")
    start = time.perf_counter()
    arrived = cross()
    seconds = time.perf_counter() - start
    added = max(0, status_kb("VmHWM") - before) * 1024
    assert float(arrived[-1]) == last
    return added, seconds


def measure(way: str, size: int) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    x = torch.arange(size // 4, dtype=torch.float32)
    cross = make_crossing(way, x)
    small = make_crossing(way, torch.ones(4))
    for _ in range(100):
        small()  # imports, caches
    added, fastest = first_crossing(cross, float(x[-1]))
    spent, rounds = fastest, 1
    while spent < BUDGET:
        start = time.perf_counter()
        for _ in range(rounds):
            cross()
        took = time.perf_counter() - start
        spent += took
        fastest = min(fastest, took / rounds)
        if took < 0.01:
            rounds *= 2
    return {"seconds": fastest, "memory": added, "throughput": size / fastest}


def in_child(way: str, size: int) -> dict[str, float]:
    """A fork has torch imported already, and a peak of memory of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(measure(way, size)).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{way} of {size} bytes failed")
    return json.loads(text)


def run_all(largest: int) -> dict[str, dict[str, dict[str, float]]]:
    results: dict[str, dict[str, dict[str, float]]] = {way: {} for way in WAYS}
    for size in (size for size in SIZES if size <= largest):
        for way in WAYS:
            if way == "element by element" and size > LARGEST_BY_ELEMENT:
                continue
            cell = results[way][str(size)] = in_child(way, size)
            print(
                f"{show_size(size):>7}  {way:<20}{show_time(cell['seconds']):>10}{show_size(cell['memory']):>10}",
                flush=True,
            )
    return results


def show_time(seconds: float) -> str:
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def show_size(size: float) -> str:
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def markdown(results: dict[str, dict[str, dict[str, float]]]) -> str:
    sizes = list(results["zero-copy"])

    def table(field: str, show: Callable[[float], str]) -> list[str]:
        lines = ["| | " + " | ".join(show_size(int(size)) for size in sizes) + " |", "|---|" + "---:|" * len(sizes)]
        for way, cells in results.items():
            shown = (show(cells[size][field]) if size in cells else "-" for size in sizes)
            lines.append(f"| {way} | " + " | ".join(shown) + " |")
        return lines

    lines = ["Time of one crossing:", "", *table("seconds", show_time)]
    lines += ["", "Memory added, at its highest:", "", *table("memory", lambda m: show_size(m) if m > NOISE else "0")]
    lines += [
        "",
        "Throughput (for zero-copy a figure of speech):",
        "",
        *table("throughput", lambda t: show_size(t) + "/s"),
    ]
    return "\n".join(lines) + "\n"


def draw(results: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(11, 4.4), constrained_layout=True)
    for way, cells in results.items():
        sizes = [int(size) for size in cells]
        style: dict[str, Any] = {"linewidth": 3, "zorder": 3} if way == "zero-copy" else {"linewidth": 1.5}
        style["color"] = COLOURS[way]
        times.loglog(
            sizes, [cells[str(size)]["seconds"] for size in sizes], marker="o", markersize=4, label=way, **style
        )
        shown = [max(cells[str(size)]["memory"], NOISE) for size in sizes]
        memory.loglog(sizes, shown, marker="o", markersize=4, label=way, **style)
    times.set_title("Time of one crossing")
    memory.set_title("Memory added, at its highest")
    memory.text(1e3, NOISE * 0.62, "none that can be seen", fontsize=8)
    memory.set_ylim(bottom=NOISE * 0.5)
    times.yaxis.set_major_formatter(lambda value, _: show_time(value))
    memory.yaxis.set_major_formatter(lambda value, _: show_size(value))
    for axes in (times, memory):
        axes.xaxis.set_major_formatter(lambda value, _: show_size(value))
        axes.set_xlabel("size of the tensor")
        axes.grid(True, which="major", alpha=0.3)
    times.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=float, default=1e9, help="bytes of the largest tensor")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    import torch

    import isthmus  # noqa: F401  (once, for all the forks)

    start = time.monotonic()
    results = run_all(int(options.largest))
    text = markdown(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.markdown:
        options.markdown.write_text(text)
    if options.picture:
        draw(results, options.picture)
    print(
        f"\n{text}\n{platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__.split('+')[0]}, one thread; "
        f"{time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
