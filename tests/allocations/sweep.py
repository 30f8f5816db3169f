#!/usr/bin/env python3
"""The sweep of allocations: every public function, with each of its allocations failing in turn.

Usage:
    tests/allocations/sweep.py [--short] [--only WORD ...] [--pythonpath DIR ...] [--asan] [-v]

A call is made in a forked process, in which its n-th allocation fails: once, or that one and all later ones. It must
end as it does with memory or with a MemoryError, the same call must be right afterwards, and no memory may be lost.
Each call is swept as the first of its process and again when its caches are filled. `calls.py` has the calls. The exit
status is 1 if one of them did anything else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "python" / "support"

#: Allocations that the short form lets fail in each call.
SHORT = 6


def preloaded() -> Path:
    """The allocator that can be made to fail, compiled."""
    sys.path.insert(0, str(SUPPORT))
    from compiling import CXX, compiled

    flags = ["-std=c++20", "-O1", "-shared", "-fPIC"]
    return compiled("failing_malloc.so", [CXX, *flags, HERE / "failing_malloc.cpp"]) / "failing_malloc.so"


def run_world(world: str, options: argparse.Namespace, malloc: Path) -> int:
    """The exit status; each call's lines are printed when it is done."""
    environment = os.environ | {
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([*options.pythonpath, str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
        "LD_PRELOAD": os.pathsep.join([str(malloc), *sanitizer(options)]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if options.asan:
        environment["ASAN_OPTIONS"] = (
            "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1:handle_segv=0:alloc_dealloc_mismatch=0"
        )
    command = [sys.executable, HERE / "armed.py", world, *options.only]
    if options.short:
        command += ["--at-most", str(SHORT)]
    printed = False
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*command, *["--verbose"] * options.verbose],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            printed = True
        status = process.wait()
        if status not in (0, 1) or not printed:
            errors.seek(0)
            print(f"{world}: the process that sweeps ended with {status}: {errors.read().strip()[-2000:]}", flush=True)
    return status


def sanitizer(options: argparse.Namespace) -> list[str]:
    if not options.asan:
        return []
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return [found.stdout.strip()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help=f"at most {SHORT} allocations of each call")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="calls whose name has it")
    parser.add_argument("--world", action="append", default=[], help="one of the modules of calls.py")
    parser.add_argument("--pythonpath", action="append", default=[], metavar="DIR")
    parser.add_argument("--asan", action="store_true", help="the modules are built with AddressSanitizer")
    parser.add_argument("-v", "--verbose", action="store_true", help="where each allocation that went wrong was")
    options = parser.parse_args()
    import calls

    malloc = preloaded()
    failed = 0
    for world in options.world or calls.WORLDS:
        failed |= run_world(world, options, malloc) != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
