#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark: Isthmus beside its peers, in one run.

Usage:
    benchmarks/bench.py [--quick] [--only WORD] [--counts | --times | --growth] [--no-docs] [--out DIR]

Builds the peers (build/bench, cached), measures every row with its contenders interleaved, prints the tables, and
writes docs/benchmark: results.json, index.html and the pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import build
import by_hand
import day
import harness
import operators
import rows as table
from calls import FLOOR, OURS, Call, Row
from peers import BUFFER_ELEMENTS, Peers

Result = dict[str, Any]
ISOLATED = ("tensorflow", "paddle")  # they do not share a process, with each other or with torch


class Progress:
    """One line that says what runs now and since when, on a terminal; one line per step elsewhere."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        line = f"[{time.monotonic() - self.start:5.0f} s] {text}"
        print(f"\r\x1b[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def done(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr)


@dataclass
class Finished:
    """A row that was measured, to be measured again."""

    row: Row
    prepare: Callable[[], object]
    results: list[Result]
    nothing: dict[str, float]  # what its empty calls cost


finished: list[Finished] = []


def timed(row: Row, peers: Peers, rounds: int, prepare: Callable[[], object] = lambda: None) -> list[Result]:
    """The results of one row, the floor's first. `prepare` makes the process what the row needs."""
    prepare()
    results, nothing = measure(row, peers, rounds)
    finished.append(Finished(row, prepare, results, nothing))
    return results


def measure_again(peers: Peers, rounds: int, say: Callable[[str], None]) -> None:
    """The rows that were measured before the machine became quiet, once more, into the same results."""
    for done in [each for each in finished if harness.disturbed(each.nothing)]:
        say(f"again: {done.row.name}")
        done.prepare()
        results, nothing = measure(done.row, peers, rounds)
        if sum(nothing.values()) < sum(done.nothing.values()):
            for old, new in zip(done.results, results, strict=True):
                old.pop("why_not", None)
                old.update(new)
    finished.clear()


def measure(row: Row, peers: Peers, rounds: int) -> tuple[list[Result], dict[str, float]]:
    """The results of one row, the floor's first; the least that each of its empty calls cost."""
    contenders, missing = row.bind(peers)
    with harness.pinned(), row.within():
        measured = harness.compare(contenders, rounds)
    floor = next((m for m in measured if m.library == row.floor and m.turns), None)
    results = []
    for m in measured:
        result: Result = {
            "row": row.name,
            "group": row.group,
            "library": m.library,
            "version": peers.version(m.library),
            "ns": None,
            "ratio_to_floor": None,
        }
        if m.turns:
            result |= m.figures()
            if floor is not None:
                result["ratio_to_floor"] = round(m.ns / floor.ns, 3)
        else:
            result["why_not"] = m.why_not
        results.append(result | ({"note": m.note} if m.note else {}))
    for library, why in missing.items():
        results.append(
            {
                "row": row.name,
                "group": row.group,
                "library": library,
                "version": peers.version(library),
                "ns": None,
                "ratio_to_floor": None,
                "why_not": why,
            }
        )
    return results, measured[0].nothing if measured else {}


def isolated_rows(framework: str, peers: Peers) -> list[Row]:
    scope: dict[str, Any]
    if framework == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        x = tf.zeros((1000,), tf.float32)
        scope = {"x": x, "tf_from_dlpack": tf.experimental.dlpack.from_dlpack}
        out = Row(
            "C++ → tensorflow",
            "out",
            {
                FLOOR: Call(FLOOR, "to_legacy_capsule", then="tf_from_dlpack"),
                OURS: Call(OURS, "to_tensorflow"),
                "nanobind": Call(table.NANOBIND, "to_tensorflow"),
            },
            scope,
            {FLOOR: "TensorFlow's own from_dlpack of a capsule made in C"},
        )
        return [*table.buffer_rows("tensorflow", x), out]
    import paddle

    x = paddle.zeros([1000], dtype="float32")
    peers.get(FLOOR).load_exchange(type(x))
    scope = {"x": x, "paddle_from_dlpack": paddle.utils.dlpack.from_dlpack}
    out = Row(
        "C++ → paddle",
        "out",
        {
            FLOOR: Call(FLOOR, "to_exchange"),
            OURS: Call(OURS, "to_paddle"),
            "paddle.utils.dlpack.from_dlpack": Call(FLOOR, "to_capsule", then="paddle_from_dlpack"),
        },
        scope,
        {FLOOR: "C over the exchange API"},
    )
    return [*table.exchange_rows("paddle", x), out]


def run_isolated(framework: str, rounds: int, say: Callable[[str], None]) -> list[Result]:
    """One framework in a process of its own."""
    say(f"{framework}, in a process of its own")
    row = f"{framework} → C++, borrowed"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        done = subprocess.run(
            [sys.executable, __file__, "--framework", framework, "--rounds", str(rounds), "--raw", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        if not out.exists():
            last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            return [
                {
                    "row": row,
                    "group": "in",
                    "library": framework,
                    "version": "",
                    "ns": None,
                    "ratio_to_floor": None,
                    "why_not": last[:200],
                }
            ]
        results: list[Result] = json.loads(out.read_text())
        return results


def main_rows(peers: Peers, only: str, rounds: int, say: Callable[[str], None]) -> list[Result]:
    import numpy as np
    import torch

    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        jax = jnp = None
    floor = peers.get(FLOOR)
    floor.load_shims()
    floor.load_exchange(torch.Tensor)
    floor.load_numpy()
    peers.set_size(BUFFER_ELEMENTS)
    if peers.get(OURS) is not None:
        peers.get(OURS).hold(np.zeros(1000, np.float32))
    listed = [*table.torch_rows(torch), *table.numpy_rows(np)]
    if jax is not None:
        listed += table.buffer_rows("jax", jnp.zeros(1000))
    listed += [*table.out_rows(torch, np, jax, peers), *table.python_rows(torch, np, jax), *table.dims_rows(torch, np)]
    listed += operators.rows(torch, np, jax, peers)
    listed += [*by_hand.rows(np, peers), *day.rows(np, torch)]
    results = []
    for number, row in enumerate(listed, 1):
        if only in row.name:
            say(f"{number}/{len(listed)} {row.name}")
            results += timed(row, peers, rounds, lambda: peers.set_size(BUFFER_ELEMENTS))
    for prepare, sized in table.size_rows(torch, np, peers.set_size):
        for row in sized:
            if only in row.name:
                say(row.name)
                results += timed(row, peers, rounds, prepare)
    measure_again(peers, rounds, say)
    peers.set_size(BUFFER_ELEMENTS)
    return results


def environment() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")),
            model,
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": load,
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--only", default="", help="rows whose name contains this word; nothing but the timed rows then"
    )
    parser.add_argument("--rounds", type=int, default=31, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no compile times or callgrind")
    half = parser.add_mutually_exclusive_group()
    half.add_argument(
        "--counts", action="store_true", help="counts, sizes and compile times alone, beside the times of the last run"
    )
    half.add_argument("--times", action="store_true", help="the other way round, for a time when the machine is quiet")
    half.add_argument("--growth", action="store_true", help="the rows of growth.py alone, beside those of the last run")
    parser.add_argument("--no-docs", action="store_true", help="print only")
    parser.add_argument(
        "--out",
        type=Path,
        default=build.ROOT / "docs" / "benchmark",
        help="where the page goes (default: docs/benchmark)",
    )
    parser.add_argument("--framework", choices=ISOLATED, help=argparse.SUPPRESS)
    parser.add_argument("--raw", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def last_results(out: Path) -> list[Result]:
    results: list[Result] = json.loads((out / "results.json").read_text())
    return results


def write_with_last(groups: Collection[str], results: list[Result], out: Path) -> int:
    """The page of the last run with these groups made anew."""
    import report

    report.show(results)
    kept = [r for r in last_results(out) if r["group"] not in groups]
    report.write(kept + results, json.loads((out / "environment.json").read_text()), out)
    return 0


def only_a_part(peers: Peers, options: argparse.Namespace, rounds: int, say: Progress) -> int:
    """--counts and --growth."""
    import extras
    import growth

    groups: Collection[str] = [growth.GROUP] if options.growth else extras.COUNTED
    results = growth.all_results(rounds, say) if options.growth else extras.counted(peers, options.quick, say)
    say.done()
    return write_with_last(groups, results, options.out)


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    say = Progress()
    rounds = 9 if options.quick else options.rounds
    if options.framework:
        # The framework first: two of them crash when another's libraries came before.
        __import__(options.framework)
        built = build.build_all(lambda _: None)
        for peer in build.PEER_LIST:
            if peer.links_torch:
                built[peer.name].why_not = "needs torch in the process"
        peers = Peers(built)
        peers.set_size(BUFFER_ELEMENTS)
        results = [r for row in isolated_rows(options.framework, peers) for r in timed(row, peers, rounds)]
        measure_again(peers, rounds, lambda _: None)
        options.raw.write_text(json.dumps(results))
        return 0

    built = build.build_all(say)
    if built[FLOOR].why_not:
        sys.exit(f"the floor does not build: {built[FLOOR].why_not}")
    import torch  # noqa: F401  its libraries must be there when the extensions that need them load

    peers = Peers(built)
    if options.counts or options.growth:
        return only_a_part(peers, options, rounds, say)
    conditions = environment()  # the load without ours
    results = main_rows(peers, options.only, rounds, say)
    for framework in ISOLATED:
        if not options.only or options.only in framework:
            results += run_isolated(framework, rounds, say)
    if not options.only:
        import extras

        results += extras.clocked(peers, rounds, timed, say)
        if options.times:
            results += [r for r in last_results(options.out) if r["group"] in extras.COUNTED]
        else:
            results += extras.counted(peers, options.quick, say)
    say.done()
    import report

    report.show(results)
    report.show_targets(results)
    if not options.only and not options.no_docs:
        report.write(results, conditions, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
