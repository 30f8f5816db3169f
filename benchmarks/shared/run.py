#!/usr/bin/env python3
"""Measure isthmus.shared: a hand-over and its answer from C++ and from Python, and fresh beside recycled memory.

Usage: benchmarks/shared/run.py        prints a table; needs the installed package and a C++ compiler
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import isthmus
from isthmus import shared

HERE = Path(__file__).resolve().parent


def compiled() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "handover"
        includes = [f"-I{path}" for path in isthmus.get_includes()]
        command = [
            "c++",
            "-std=c++20",
            "-O2",
            "-DISTHMUS_IMPLEMENTATION",
            *includes,
            HERE / "handover.cpp",
            "-o",
            program,
        ]
        subprocess.run(command, check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def python(nbytes: int, access: shared.Access, rounds: int = 5000) -> dict[str, object]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        while True:
            try:
                tensor = shared.receive(theirs)
            except EOFError:
                os._exit(0)
            del tensor
            theirs.send(b"x")
    theirs.close()
    tensor = shared.empty((nbytes,), "uint8", access=access)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        shared.send(ours, tensor, access)
        ours.recv(1)
        times.append(time.perf_counter() - start)
    ours.close()
    os.wait()
    times.sort()
    return {
        "what": "Python hand-over and answer",
        "bytes": nbytes,
        "access": access,
        "least_us": round(times[0] * 1e6, 1),
        "median_us": round(times[rounds // 2] * 1e6, 1),
    }


def channel(nbytes: int, rounds: int = 30) -> dict[str, object]:
    """Batches through a Channel to a process that reads one element of each page."""
    ours, theirs = shared.Channel.pair(limit=8 * nbytes)
    if os.fork() == 0:
        ours.close()
        for tensor in theirs:
            np.asarray(tensor)[::4096].sum()
            del tensor
        os._exit(0)
    theirs.close()
    batch = np.ones(nbytes, dtype="uint8")
    for _ in range(10):
        ours.send(batch)
    start = time.perf_counter()
    for _ in range(rounds):
        ours.send(batch)
    took = time.perf_counter() - start
    ours.close()
    os.wait()
    return {
        "what": "Channel.send of ordinary memory, GB/s",
        "bytes": nbytes,
        "rate": round(rounds * nbytes / took / 1e9, 1),
    }


def main() -> None:
    rows = compiled()
    rows += [python(n, access) for n in (4096, 1 << 20, 1 << 30) for access in ("read_only", "copy_on_write", "shared")]
    shared.trim()
    rows += [channel(n) for n in (1 << 20, 38_000_000)]
    for row in rows:
        print(" ".join(f"{key} {value}" if key != "what" else f"{value}:" for key, value in row.items()))
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
