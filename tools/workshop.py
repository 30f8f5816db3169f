"""A copy of the repository for tools/mutate.py, which is built again and again in part and tested."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from guards import ROOT

#: Bytes of addresses for a process: without its guard a loop may allocate for ever.
MEMORY = 12 << 30
#: Seconds for a program of C++ tests, each of which takes a few: without its guard a loop may not end.
PROGRAM = 120


@dataclass(frozen=True)
class Mirror:
    """The tests that see a file of the library: what is built, which of it is run, and pytest's folders."""

    targets: tuple[str, ...]
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def adapter(name: str) -> Mirror:
    return Mirror((f"isthmus_{name}_tests",), (f"isthmus_{name}_tests",))


BRIDGE = Mirror(("isthmus_test_ext",), (), ("tests/python", "tests/life"))
#: By the first part of a file's path, or its name without suffix, that is named here.
MIRRORS = {
    "core": adapter("core"),
    "python": BRIDGE,
    "bridge": BRIDGE,
    "eigen": adapter("eigen"),
    "mdspan": adapter("mdspan"),
    "opencv": adapter("opencv"),
    "xtensor": adapter("xtensor"),
    "torch": Mirror(("isthmus_torch_stable_ext", "isthmus_torch_test_ext"), (), ("tests/torch",)),
}


def mirror_of(file: str) -> Mirror | None:
    parts = [Path(part).stem for part in Path(file).parts]
    return next((MIRRORS[part] for part in parts if part in MIRRORS), None)


class Workshop:
    def __init__(self, build: Path, python: Path, timeout: float, changed: dict[str, str]) -> None:
        """`changed` has the text of the files that differ from the repository's. What is there already is not written
        again, so that the next run of the same builds nothing."""
        self.source, self.build, self.python, self.timeout = build / "source", build / "build", python, timeout
        self.site = build / "site"
        shown = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, shown.split("\0")):
            if (ROOT / name).is_file():
                target = self.source / name
                target.parent.mkdir(parents=True, exist_ok=True)
                content = changed[name].encode() if name in changed else (ROOT / name).read_bytes()
                if not target.exists() or target.read_bytes() != content:
                    target.write_bytes(content)
                    shutil.copymode(ROOT / name, target)
        configure = [
            "cmake",
            "--preset",
            "dev",
            "-B",
            self.build,
            f"-DPython_EXECUTABLE={python}",
            "-DISTHMUS_TORCH=ON",
        ]
        package = ["-DISTHMUS_BUILD_PACKAGE=ON", "-DISTHMUS_WHEEL_LAYOUT=ON", "-DISTHMUS_CHECK_HEADERS=OFF"]
        self.check(self.run([*configure, *package], timeout=600), "configuring")

    def run(
        self, command: list[object], timeout: float | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Its output; one that takes too long is killed with the processes it started, and ends with status 124."""
        # The headers of the copy are those that tests compile themselves, and its package the one that they import.
        path = os.pathsep.join(filter(None, [str(self.site), str(ROOT / "tools"), os.environ.get("PYTHONPATH")]))
        environment = {"ISTHMUS_TEST_INCLUDE": str(self.source / "include"), "PYTHONPATH": path,
                       "ISTHMUS_ALL_ALLOCATIONS": "1", **environment}  # fmt: skip
        # Without its guard a test may print bytes that are no text.
        process = subprocess.Popen([*map(str, command)], cwd=self.source, env={**os.environ, **environment}, text=True,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)  # fmt: skip
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            output, errors = process.communicate(timeout=timeout or self.timeout)
            return subprocess.CompletedProcess([], process.returncode, output, errors)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return subprocess.CompletedProcess([], 124, "", "not done in time")

    @staticmethod
    def check(done: subprocess.CompletedProcess[str], what: str) -> None:
        if done.returncode:
            sys.exit(f"{what} the unchanged copy failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")

    def build_tests(self, mirror: Mirror) -> subprocess.CompletedProcess[str]:
        return self.run(["cmake", "--build", self.build, "--target", *mirror.targets], timeout=3600)

    def install(self) -> subprocess.CompletedProcess[str]:
        return self.run(["cmake", "--install", self.build, "--prefix", self.site])

    def first_failure(self, mirror: Mirror, **environment: str) -> str:
        """The first test that fails, or "" when none does."""
        for program in mirror.programs:
            command = [self.build / program, "--gtest_fail_fast", "--gtest_brief=0"]
            done = self.run(command, timeout=min(self.timeout, PROGRAM), **environment)
            if done.returncode:
                failed = re.search(r"^\[  FAILED  \] (\w\S*\.[^\s,]+)", done.stdout, re.MULTILINE)
                running = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)  # where it crashed
                return str(failed[1] if failed else [program, *running][-1])
        if mirror.folders:
            command = [self.python, "-m", "pytest", "-q", "-x", "-n", "auto", "-p", "no:cacheprovider"]
            done = self.run([*command, "-o", f"pythonpath={self.build / 'ext'}", *mirror.folders], **environment)
            if done.returncode:
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return failed[1] if failed else "pytest"
        return ""
