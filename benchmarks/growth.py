# SPDX-License-Identifier: Apache-2.0
"""What an exchange costs along the axes on which a user grows: types, elements, tensors alive, sizes.

Usage:
    benchmarks/growth.py [--rounds N] [--only WORD]

Prints a table: the least time of N interleaved rounds, beside NumPy and torch if they do the same. bench.py --growth
puts the same rows into docs/benchmark. tests/benchmark/test_growth.py has a count for each axis, so that none of them
becomes a cliff again.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import counts
import harness
from calls import OURS

GROUP = "growth"
NUMPY, TORCH = "NumPy", "torch, one thread"
MODULE = "bench_growth"
SOURCE = build.ROOT / "benchmarks" / "growth" / "module.cpp"
REGION = "isthmus_growth_region"


def recipe() -> build.Recipe:
    library = build.isthmus_library()
    return build.Recipe([SOURCE], build.isthmus_flags(), ["-ldl"], build.headers(), libraries=[library])


def built() -> Path:
    """The module, built if need be. Raises build.Unavailable."""
    made = build.build(build.Peer("growth", MODULE, recipe, build.isthmus_version))
    if made.path is None:
        raise build.Unavailable(made.why_not)
    return made.path


def module() -> Any:
    folder = str(built().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(MODULE)


def instructions(code: str) -> list[int]:
    """Runs `code`, which finds the module as `growth` and NumPy as `np`, under callgrind: the instructions of each call
    of the module in turn. Raises build.Unavailable."""
    folder = built().parent
    head = f"import sys; sys.path.insert(0, {str(folder)!r})\nimport numpy as np\nimport {MODULE} as growth\n"
    with tempfile.TemporaryDirectory() as scratch:
        counts.run_callgrind(REGION, scratch, [], ["-c", head + code])
        counted = []
        for number in range(1, 1 + len(list(Path(scratch).glob("out.*")))):
            out = Path(scratch, f"out.{number}")
            found = re.search(r"^totals: (\d+)", out.read_text(), re.MULTILINE) if out.exists() else None
            if found is not None:
                counted.append(int(found.group(1)))
        return counted


@dataclass
class Row:
    axis: str
    name: str
    call: Callable[[], float]  # nanoseconds of one
    line: str = ""  # of the picture, and where on it
    count: int = 0
    library: str = OURS


def array_classes(count: int) -> list[Any]:
    import numpy as np

    return [np.zeros(3).view(type(f"Array{i}", (np.ndarray,), {})) for i in range(count)]


def rows_of_types(growth: Any) -> list[Row]:
    def row(count: int) -> Row:
        objects = array_classes(count)
        growth.own(objects, 2)
        name = f"from_py of {count:,} array classes"
        return Row(
            "types", name, lambda: growth.own(objects, max(1, 2000 // count)), "from_py, of array classes", count
        )

    def row_of_new() -> Row:
        return Row(
            "types", "from_py of an array class that was made just now", lambda: growth.own(array_classes(50), 1)
        )

    return [*map(row, (1, 10, 100, 1000)), row_of_new()]


def rows_of_live_tensors(growth: Any) -> list[Row]:
    def rows(count: int) -> list[Row]:
        return [
            Row(
                "live list",
                f"one of {count:,} tensors is dropped",
                lambda: growth.drop_listed(count),
                "a drop, live list on, of tensors alive",
                count,
            ),
            Row(
                "live list",
                f"live() of {count:,} tensors, each",
                lambda: growth.list_live(count),
                "live(), each of tensors alive",
                count,
            ),
        ]

    return [row for count in (1000, 30_000, 300_000) for row in rows(count)]


def rows_of_arguments(growth: Any) -> list[Row]:
    import numpy as np

    def row(count: int, kind: str) -> Row:
        arrays = [np.zeros(3, np.float32) for _ in range(count)]
        function = getattr(growth, kind)
        name = f"an element of {count:,}: {kind}"
        return Row("containers", name, lambda: function(arrays)[0], f"{kind}, each of elements", count)

    array = np.zeros(3, np.float32)
    return [
        Row("arguments", "a call with eight views", lambda: growth.eight(array, 1000)),
        *(row(count, "vector_of_views") for count in (1000, 10_000, 100_000)),
        *(row(count, "vector_of_borrowed") for count in (1000, 10_000)),
    ]


def rows_of_results(growth: Any) -> list[Row]:
    def row(count: int, size: int) -> Row:
        name = f"a result of {size >> 10:,} KiB, {count} alive at once, filled"
        return Row("results", name, lambda: growth.results(count, size, max(1, (64 << 20) // (count * size)))[0])

    sizes = [(count, 64 << 10) for count in (1, 64, 256)] + [(count, 1 << 20) for count in (1, 64, 256)]
    return [row(*each) for each in [*sizes, (1, 4 << 20), (16, 4 << 20), (24, 4 << 20), (64, 4 << 20), (1, 256 << 20)]]


def rows_of_copies(growth: Any) -> list[Row]:
    """Each beside NumPy, and torch with one thread."""
    import time

    import numpy as np

    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None

    def timed(call: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            start = time.perf_counter_ns()
            call()
            return float(time.perf_counter_ns() - start)

        return run

    pixels = (np.random.default_rng(0).random((1080, 1920, 3)) * 255).astype(np.uint8)
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    square = np.random.default_rng(0).random((2000, 2000))
    copies = {
        "HWC → CHW, uint8": pixels.transpose(2, 0, 1),
        "CHW → HWC, uint8": planes.transpose(1, 2, 0),
        "HWC → CHW, float32": pixels.astype(np.float32).transpose(2, 0, 1),
        "CHW → HWC, float32": planes.astype(np.float32).transpose(1, 2, 0),
        "a transposed matrix, uint8": square.astype(np.uint8).T,
        "a transposed matrix, float32": square.astype(np.float32).T,
        "a transposed matrix, float64": square.T,
        "every second column, uint8": np.tile(square.astype(np.uint8), 2)[:, ::2],
        "every second column, float32": np.tile(square.astype(np.float32), 2)[:, ::2],
        "every second column, float64": np.tile(square, 2)[:, ::2],
        "backwards, float32": square.astype(np.float32)[:, ::-1],
    }
    conversions = [
        ("float64", "float32"), ("float32", "float64"), ("uint8", "float32"), ("uint8", "float64"),
        ("int32", "int64"), ("int64", "int32"), ("int32", "float32"), ("int64", "float64"), ("int16", "float32"),
    ]  # fmt: skip
    rows = []
    for name, source in copies.items():
        rows.append(Row("copies", name, lambda source=source: growth.copied(source, 1)))
        rows.append(Row("copies", name, timed(lambda source=source: np.array(source, order="C")), library=NUMPY))
        if torch is not None and all(step > 0 for step in source.strides):
            tensor = torch.from_numpy(source)
            rows.append(Row("copies", name, timed(lambda tensor=tensor: tensor.contiguous()), library=TORCH))
    for before, after in conversions:
        source = (square * 200).astype(before)
        name = f"{before} → {after}"
        rows.append(Row("conversions", name, lambda source=source, after=after: growth.converted(source, after, 1)))
        rows.append(
            Row("conversions", name, timed(lambda source=source, after=after: source.astype(after)), library=NUMPY)
        )
        if torch is not None:
            tensor, dtype = torch.from_numpy(source), getattr(torch, after)
            rows.append(
                Row("conversions", name, timed(lambda tensor=tensor, dtype=dtype: tensor.to(dtype)), library=TORCH)
            )
    return rows


def all_rows(growth: Any) -> list[Row]:
    return [
        *rows_of_types(growth),
        *rows_of_live_tensors(growth),
        *rows_of_arguments(growth),
        *rows_of_results(growth),
        *rows_of_copies(growth),
    ]


def measured(rows: list[Row], rounds: int) -> list[harness.Measured]:
    """The rows, those of an axis in turns: what others leave in the processor's caches is no part of them."""
    found = []
    with harness.pinned():
        for _, axis in itertools.groupby(rows, key=lambda row: row.axis):
            together = list(axis)
            times = zip(*[[row.call() for row in together] for _ in range(rounds)], strict=True)
            found += [
                harness.Measured(row.library, turns=list(turns)) for row, turns in zip(together, times, strict=True)
            ]
    return found


def all_results(rounds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """The group of the benchmark's page. Raises build.Unavailable."""
    say("growth")
    rows = all_rows(module())
    versions = {
        OURS: build.isthmus_version(),
        NUMPY: build.package_version("numpy"),
        TORCH: build.package_version("torch"),
    }
    results = []
    for row, found in zip(rows, measured(rows, rounds), strict=True):
        named = {"row": f"{row.axis}: {row.name}", "group": GROUP, "library": row.library}
        result = named | {"version": versions[row.library]} | found.figures()
        results.append(result | ({"line": row.line, "count": row.count} if row.line else {}))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rows = [row for row in all_rows(module()) if given.only in f"{row.axis}: {row.name}"]
    for row, found in zip(rows, measured(rows, given.rounds), strict=True):
        print(f"{row.axis:12} {row.name:52} {row.library:18} {found.ns:14,.1f} ns")


if __name__ == "__main__":
    main()
