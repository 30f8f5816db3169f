# SPDX-License-Identifier: Apache-2.0
"""Counts that no noise touches: instructions per exchange under callgrind, and allocations per exchange."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build

Result = dict[str, Any]
REGION = "isthmus_bench_region"
TIMES = 1000
PROBES = build.ROOT / "benchmarks" / "probes"
RECORDED = build.ROOT / "benchmarks" / "instructions.json"
FRAMEWORKS = ("torch", "jax")  # beside NumPy
COUNTED = ("floor", "isthmus", "isthmus header-only", "isthmus, stable ABI")


def run_callgrind(region: str, folder: str, options: list[str], program: list[str]) -> str:
    """What a Python program prints under callgrind, which writes folder/out.1, out.2, … after each return from the
    function `region`, with what was executed inside. Raises Unavailable."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--collect-atstart=no",
        f"--toggle-collect={region}",
        f"--dump-after={region}",
        *options,
        f"--callgrind-out-file={folder}/out",
        sys.executable,
        *program,
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as why:
        raise build.Unavailable(f"no valgrind: {why}") from why
    if done.returncode:
        raise build.Unavailable((done.stderr.strip().splitlines() or ["valgrind failed"])[-1])
    return done.stdout


def instructions(frameworks: tuple[str, ...]) -> list[tuple[str, str, float]]:
    """(row, library, instructions per call, the empty call subtracted). Raises Unavailable without valgrind."""
    if shutil.which("valgrind") is None:
        raise build.Unavailable("no valgrind")
    with tempfile.TemporaryDirectory() as folder:
        switch = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; sys.path.insert(0, sys.argv[1]); import bench_floor; print(bench_floor.can_switch())",
                str(build.MODULES),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        options = [f"--instr-atstart={'no' if switch.stdout.strip() == 'True' else 'yes'}"]
        program = [str(PROBES / "run_cases.py"), "instructions", str(build.MODULES), *frameworks]
        printed = run_callgrind(REGION, folder, options, program)
        listed = json.loads(printed.strip().splitlines()[-1])
        counted = []
        for number, (row, library, _) in enumerate(listed, 1):
            found = re.search(r"^totals: (\d+)", Path(folder, f"out.{number}").read_text(), re.MULTILINE)
            if found is None:
                raise build.Unavailable("callgrind wrote no totals")
            counted.append((row, library, int(found.group(1)) / TIMES))
    empty = counted[0][2]
    return [(row, library, round(count - empty, 1)) for row, library, count in counted[1:]]


def allocations(frameworks: tuple[str, ...]) -> list[tuple[str, str, float]]:
    """(row, library, allocations per call), Python objects included."""
    library = build.OUT / "count_allocations.so"
    source = PROBES / "count_allocations.c"
    build.run(
        [build.compiler(source), "-O2", "-fPIC", "-shared", str(source), "-o", str(library)],
        build.OUT / "count_allocations.log",
    )
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"}
    command = [
        sys.executable,
        str(PROBES / "run_cases.py"),
        "allocations",
        str(build.MODULES),
        *frameworks,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise build.Unavailable((done.stderr.strip().splitlines() or ["failed"])[-1])
    return [(row, library_name, count) for row, library_name, count in json.loads(done.stdout.strip().splitlines()[-1])]


def as_results(
    group: str, unit: str, counted: list[tuple[str, str, float]], versions: Callable[[str], str]
) -> list[Result]:
    floors = {row: count for row, library, count in counted if library == "floor"}
    return [
        {
            "row": f"{unit}: {row}",
            "group": group,
            "library": library,
            "version": versions(library),
            "ns": None,
            "value": count,
            "unit": unit,
            "ratio_to_floor": round(count / floors[row], 3) if floors.get(row) else None,
        }
        for row, library, count in counted
    ]


def missing(group: str, unit: str, why: str) -> list[Result]:
    return [
        {
            "row": unit,
            "group": group,
            "library": "isthmus",
            "version": "",
            "ns": None,
            "ratio_to_floor": None,
            "why_not": why,
        }
    ]


def all_results(versions: Callable[[str], str], say: Callable[[str], None], with_callgrind: bool) -> list[Result]:
    results = []
    say("allocations per exchange")
    try:
        results += as_results("allocations", "allocations", allocations(FRAMEWORKS), versions)
    except (build.Unavailable, OSError) as why:
        results += missing("allocations", "allocations", str(why))
    if with_callgrind:
        say("instructions per exchange, under callgrind (a minute or two)")
        try:
            results += as_results("instructions", "instructions", instructions(FRAMEWORKS), versions)
        except (build.Unavailable, OSError) as why:
            results += missing("instructions", "instructions", str(why))
    return results


def count(frameworks: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Row → library → instructions, of modules that are built if need be. Raises Unavailable."""
    for peer in build.PEER_LIST:
        if peer.name in COUNTED and (why := build.build(peer).why_not):
            raise build.Unavailable(f"{peer.name}: {why}")
    rows: dict[str, dict[str, float]] = {}
    for row, library, number in instructions(frameworks):
        rows.setdefault(row, {})[library] = number
    return rows


if __name__ == "__main__":  # writes what the regression test compares with
    RECORDED.write_text(json.dumps(count(FRAMEWORKS), indent=2, ensure_ascii=False) + "\n")
