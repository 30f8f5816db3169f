#!/usr/bin/env python3
"""The soak: builds of every kind under a storm of exchanges, flat memory, and the suite under hostile allocators.

Usage:
    tests/soak/run.py [--short] [--only PART ...] [--pythonpath DIR ...]

Parts: storm-release, storm-debug, storm-asan, storm-tsan, contended, free-threaded, flat, suite-gc, suite-malloc. Each
prints one line; the exit status is the number of parts that failed. free-threaded is run by the CPython that
ISTHMUS_TSAN_PYTHON names, one without the GIL that is built with ThreadSanitizer (docs/threads.md), and skipped without
it. The lives of an embedded interpreter and the forty extensions are tests/life, which the suite parts run as well.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import isthmus

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SUPPORT = ROOT / "tests" / "python" / "support"
sys.path.insert(0, str(SUPPORT))
import at_once  # noqa: E402
from compiling import CXX, library_objects  # noqa: E402

SOURCES = {"soak": HERE / "soak.cpp", "life": ROOT / "tests" / "life" / "ext" / "life.cpp"}

BUILDS = {
    "release": ["-O2", "-DNDEBUG"],
    "debug": ["-O0", "-g", "-D_GLIBCXX_ASSERTIONS"],
    "asan": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "tsan": ["-O1", "-g", "-fsanitize=thread"],
}
TSAN = {"TSAN_OPTIONS": f"halt_on_error=1 exitcode=66 suppressions={HERE / 'tsan.supp'}"}
RUNTIMES = {"asan": ["libasan.so", "libubsan.so"], "tsan": ["libtsan.so"]}
#: The interpreter is not instrumented: its pools would hide a use after free, and its end leaves memory to the system.
ENVIRONMENTS = {
    "asan": {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
    "tsan": TSAN | {"PYTHONMALLOC": "malloc"},
}
ASK_FOR_BUILD = """
import json, sysconfig
known = {name: sysconfig.get_config_var(name) or "" for name in ("Py_GIL_DISABLED", "BASECFLAGS", "CXX")}
print(json.dumps(known | {"include": sysconfig.get_path("include")}))
"""
#: More than this is no warming up.
FLAT_BYTES = 2_000_000


class Soak:
    def __init__(self, folder: Path, short: bool, pythonpath: list[str]) -> None:
        self.folder, self.short, self.failed = folder, short, 0
        self.pythonpath = pythonpath

    def build(self, kind: str, module: str = "soak") -> Path:
        place = self.folder / kind
        if not (place / f"{module}.so").exists():
            shown = subprocess.run(
                [sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True, check=True
            )
            self.compile(place, module, [CXX], [*BUILDS[kind], *shown.stdout.split()])
        return place

    @staticmethod
    def compile(place: Path, module: str, compiler: list[str], flags: list[str]) -> None:
        place.mkdir(exist_ok=True)
        include = os.environ.get("ISTHMUS_TEST_INCLUDE") or isthmus.get_include()
        flags = ["-std=c++20", "-shared", "-fPIC", f"-I{include}", *flags]
        files = [SOURCES[module], *library_objects([*compiler, *flags], include)]
        subprocess.run([*compiler, *flags, *map(str, files), "-o", str(place / f"{module}.so")], check=True)

    def environment(self, kind: str, module: str = "soak") -> dict[str, str]:
        folders = [str(self.build(kind, module)), *self.pythonpath, str(SUPPORT)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        libraries = [self.runtime(name) for name in RUNTIMES.get(kind, [])]
        if libraries:
            environment["LD_PRELOAD"] = " ".join([*libraries, self.runtime("libstdc++.so.6")])
        return environment | ENVIRONMENTS.get(kind, {})

    @staticmethod
    def runtime(name: str) -> str:
        found = subprocess.run([CXX, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        return str(Path(found).resolve())

    def part(self, name: str, command: list[object], environment: dict[str, str], check=lambda text: "") -> None:
        start = time.monotonic()
        done = subprocess.run([*map(str, command)], env=environment, cwd=ROOT, capture_output=True, text=True)
        last = done.stdout.strip().splitlines()[-1:] or [""]
        wrong = f"exit status {done.returncode}" if done.returncode else check(last[0])
        outcome = f"FAILED, {wrong}" if wrong else "ok"
        print(f"[isthmus] soak {name}: {outcome} in {time.monotonic() - start:.0f} s: {last[0]}", flush=True)
        if wrong:
            self.failed += 1
            print(done.stdout[-6000:], done.stderr[-6000:], sep="\n", flush=True)

    def storm(self, kind: str) -> None:
        seconds = 2 if self.short else 60
        # A fork of many threads deadlocks in a sanitizer's own locks.
        fork = ["--fork"] if at_once.FORKS and kind not in RUNTIMES else []
        command = [sys.executable, "-X", "faulthandler", HERE / "storm.py", "--seconds", seconds, "--threads", 8, *fork]
        self.part(f"storm-{kind}", command, self.environment(kind))

    def contended(self) -> None:
        command = [sys.executable, "-X", "faulthandler", HERE / "contended.py", "--seconds", 2 if self.short else 60]
        self.part("contended", command, self.environment("release", "life"))

    def free_threaded(self) -> None:
        python = os.environ.get("ISTHMUS_TSAN_PYTHON")
        if not python:
            print(
                "[isthmus] soak free-threaded: skipped, ISTHMUS_TSAN_PYTHON names no interpreter (docs/threads.md)",
                flush=True,
            )
            return
        shown = subprocess.run([python, "-c", ASK_FOR_BUILD], capture_output=True, text=True, check=True).stdout
        built = json.loads(shown.splitlines()[-1])
        if not built["Py_GIL_DISABLED"] or "-fsanitize=thread" not in built["BASECFLAGS"]:
            sys.exit(f"ISTHMUS_TSAN_PYTHON is {python}, which was not built with --disable-gil --with-thread-sanitizer")
        place = self.folder / "free-threaded"
        for module in SOURCES:
            flags = [*BUILDS["tsan"], "-DNDEBUG", f"-I{built['include']}"]
            self.compile(place, module, shlex.split(built["CXX"]), flags)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(SUPPORT)])} | TSAN
        for script in ("storm", "contended"):
            command = [
                python,
                "-X",
                "faulthandler",
                HERE / f"{script}.py",
                "--seconds",
                5 if self.short else 60,
                "--threads",
                4,
            ]
            self.part(f"free-threaded {script}", command, environment)

    def flat(self) -> None:
        count = 200_000 if self.short else 10_000_000

        def check(text: str) -> str:
            gained = json.loads(text)["gained"]
            return f"{gained} bytes gained" if gained > FLAT_BYTES else ""

        self.part("flat", [sys.executable, HERE / "storm.py", "--flat", count], self.environment("release"), check)

    def suite(self, name: str, environment: dict[str, str], *arguments: object) -> None:
        tests = ["tests/life/test_dying_tensor.py"] if self.short else ["tests/python", "tests/package", "tests/life"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments, *tests]
        self.part(name, command, {**os.environ, "PYTHONPATH": os.pathsep.join(self.pythonpath), **environment})

    def run(self, parts: list[str]) -> int:
        everything = {
            **{f"storm-{kind}": (lambda kind=kind: self.storm(kind)) for kind in BUILDS},
            "contended": self.contended,
            "free-threaded": self.free_threaded,
            "flat": self.flat,
            "suite-gc": lambda: self.suite("suite-gc", {"PYTHONPATH": os.pathsep.join([str(HERE), *self.pythonpath])},
                                           "-p", "collect_always"),
            "suite-malloc": lambda: self.suite("suite-malloc", {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"}),
        }  # fmt: skip
        for part in parts or everything:
            everything[part]()
        return self.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    parser.add_argument("--pythonpath", nargs="+", default=[], metavar="DIR", help="where the test extensions are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return Soak(Path(folder), options.short, options.pythonpath).run(options.only)


if __name__ == "__main__":
    sys.exit(main())
