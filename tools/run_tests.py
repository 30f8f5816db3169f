#!/usr/bin/env python3
"""Run the C++ tests of a build folder, then pytest, and close with one line that counts both.

Usage:
    tools/run_tests.py --build DIR --python PYTHON [--name NAME] [--sanitizer asan] [--no-ctest] [PYTEST ARGUMENT ...]
    tools/run_tests.py --sum NAME ...         add up the counts that earlier runs left
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
LINES_OF_A_FAILURE = 15
LONGEST = 12  # files of tests whose time is told
LIMIT = 3300  # seconds for all of pytest: several times what a slow machine takes


class Counts:
    def __init__(
        self,
        passed: int = 0,
        failed: int = 0,
        skipped: int = 0,
        failures: list[str] | None = None,
        seconds: dict[str, float] | None = None,
    ) -> None:
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.failures = failures or []
        self.seconds = seconds or {}  # of each file of tests

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
            {**self.seconds, **other.seconds},
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def save(name: str, counts: Counts) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(vars(counts)))


def load(name: str) -> Counts:
    """What a run left; one that died before it could count is a failure."""
    try:
        return Counts(**json.loads((RESULTS / f"{name}.json").read_text()))
    except OSError:
        return Counts(failed=1, failures=["it ended before its tests were counted"])


def forget(name: str) -> None:
    (RESULTS / f"{name}.json").unlink(missing_ok=True)


def read_junit(path: Path, returncode: int) -> Counts:
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return Counts(failed=1, failures=[f"{path.name} was not written: the runner ended with {returncode}"])
    suites = [root] if root.tag == "testsuite" else list(root)
    total = {
        key: sum(int(s.get(key) or 0) for s in suites) for key in ("tests", "failures", "errors", "skipped", "disabled")
    }
    failed = total["failures"] + total["errors"]
    skipped = total["skipped"] + total["disabled"]
    # A runner that fails without a failing test (a crash, nothing collected) has failed too.
    if returncode and not failed:
        return Counts(
            max(total["tests"] - skipped, 0), 1, skipped, [f"the runner of {path.name} ended with {returncode}"]
        )
    return Counts(total["tests"] - failed - skipped, failed, skipped, failures(root), seconds(root))


def seconds(root: ElementTree.Element) -> dict[str, float]:
    """The time that the tests of each file took; pytest's class names begin with the file's, ctest has none."""
    found: dict[str, float] = {}
    for case in root.iter("testcase"):
        name = ".".join(part for part in (case.get("classname") or "").split(".") if not part[:1].isupper())
        if name.startswith("tests."):
            found[name] = found.get(name, 0) + float(case.get("time") or 0)
    return found


def longest(counts: Counts) -> str:
    """The files of tests that took longest, which is where time can be saved."""
    first = sorted(counts.seconds.items(), key=lambda item: -item[1])[:LONGEST]
    return f"; longest: {', '.join(f'{name} {time:.0f} s' for name, time in first)}" if first else ""


def failures(root: ElementTree.Element) -> list[str]:
    """Each test that failed with what it had to say: ctest leaves that to the test's output,
    pytest has an element for it."""
    found = []
    for case in root.iter("testcase"):
        said = [part.text or "" for part in case if part.tag in ("failure", "error")]
        if case.get("status") == "fail":
            said = [case.findtext("system-out") or ""]
        if said:
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            found.append(f"{name}\n{said[0].strip()}")
    return found


def run_ctest(build: Path, environment: dict[str, str]) -> Counts:
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = ["ctest", "--test-dir", build, "--output-junit", report,
               "-j", str(os.cpu_count() or 1)]  # fmt: skip
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    counts = read_junit(report, done.returncode)
    if counts.failed:
        # ctest's own output buries them under the names of all that passed,
        # but is all there is of tests that said nothing.
        said = "\n".join(f"--- {failure}" for failure in counts.failures)
        print(said if "\n" in said else done.stdout)
    print(f"[isthmus] C++ tests: {counts} in {time.monotonic() - start:.1f} s", flush=True)
    return counts


def shortened(failure: str) -> str:
    """Its name and the end of what it said, which is where the reason stands."""
    name, *lines = failure.splitlines()
    return "\n    ".join([name, *lines[-LINES_OF_A_FAILURE:]])


def run_limited(command: list[str | Path], environment: dict[str, str]) -> int:
    """Its exit status; one that does not end, with the processes it started, is killed: what runs after it goes on."""
    process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(LIMIT)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        print(f"[isthmus] pytest was killed after {LIMIT} s", flush=True)
        return process.wait()


def run_pytest(build: Path, python: Path, arguments: list[str], environment: dict[str, str]) -> Counts:
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    # A file's tests stay in one process, where they share what they build. `-n 0` among the arguments undoes it.
    # Files in their own order: by their number of tests, those with few and long ones come last, when other processes
    # idle. One more process than cores: a test that waits, for a process of its own or for a thread,
    # leaves its core to another.
    processes = str(min((os.cpu_count() or 1) + 1, 8))
    workers = ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [
        python,
        "-m",
        "pytest",
        *workers,
        f"--junitxml={report}",
        "-o",
        f"pythonpath={build / 'ext'}",
        *arguments,
    ]
    return read_junit(report, run_limited(command, environment))


def compiler_file(build: Path, name: str) -> str:
    compiler = "c++"
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("CMAKE_CXX_COMPILER:"):
            compiler = line.split("=", 1)[1]
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return str(Path(found).resolve())


def sanitized_environment(build: Path, sanitizer: str) -> dict[str, str]:
    """Python itself is not instrumented: the runtime must be loaded ahead of it, and libstdc++ for its exceptions."""
    environment = dict(os.environ)
    runtime = {"asan": "libasan.so", "ubsan": "libubsan.so", "tsan": "libtsan.so"}[sanitizer]
    environment["LD_PRELOAD"] = f"{compiler_file(build, runtime)} {compiler_file(build, 'libstdc++.so.6')}"
    # The interpreter leaves memory to the system when it ends; leaks are looked for in the C++ tests.
    environment["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1"
    environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
    # The interpreter's own pools would hide a use after free from the sanitizer.
    environment["PYTHONMALLOC"] = "malloc"
    environment["PYTHONPATH"] = str(build / "site")
    environment["ISTHMUS_SANITIZER"] = sanitizer
    return environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sum", nargs="+", metavar="NAME")
    parser.add_argument("--name", default="test")
    parser.add_argument("--build", type=Path, default=Path("build/dev"))
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--no-ctest", action="store_true", help="leave the C++ tests out")
    parser.add_argument("--sanitizer", choices=["asan", "ubsan", "tsan"])
    options, arguments = parser.parse_known_args()

    if options.sum:
        total = sum(map(load, options.sum), Counts())
        for name in options.sum:
            counts = load(name)
            for failure in counts.failures:
                print(f"[isthmus] {name} failed: {shortened(failure)}")
            print(f"[isthmus] {name}: {counts}{longest(counts)}")
        print(total)
        return 1 if total.failed or not total.passed else 0

    forget(options.name)
    build = (ROOT / options.build).absolute()
    python = (ROOT / options.python).absolute()
    counts = Counts() if options.no_ctest else run_ctest(build, dict(os.environ))
    environment = sanitized_environment(build, options.sanitizer) if options.sanitizer else dict(os.environ)
    counts += run_pytest(build, python, arguments, environment)
    save(options.name, counts)
    print(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
