#!/usr/bin/env python3
"""Make the environment that a Makefile target needs, with the standard library alone.

Usage:
    tools/bootstrap.py [--venv DIR] [--package] [--newest] GROUP ...

GROUP names a file of requirements/; its packages come in the versions of requirements/tested.txt, unless the file pins
versions of its own, or --newest asks for what came out since. Each one installed is stamped with the hash of its file,
and --package is stamped with the hash of the sources, so a second run has nothing to do and takes well under a second.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 10)
# Build tools that pip also has: (program, oldest version, requirement).
BUILD_TOOLS = (("cmake", (3, 22), "cmake>=3.22"), ("ninja", (1, 10), "ninja>=1.10"))
# They have no wheels for every interpreter without the GIL, and cannot always be compiled there: what needs them skips.
OFTEN_WITHOUT_WHEELS = ("apache-tvm-ffi", "nanobind-backend", "safetensors")
# For 3.13t it compiles for minutes, and fails.
ONLY_WHEELS = "--only-binary=apache-tvm-ffi"
TESTED = ROOT / "requirements" / "tested.txt"
PACKAGE_SOURCES = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "cmake", "include", "src", "python")


def say(text: str) -> None:
    print(f"[isthmus] {text}", flush=True)


def fail(text: str) -> None:
    sys.exit(f"[isthmus] {text}")


def run(*command: str | Path, **options: object) -> None:
    done = subprocess.run([str(part) for part in command], **options)  # type: ignore[call-overload]
    if done.returncode:
        fail(f"failed ({done.returncode}): {' '.join(map(str, command))}")


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    say(f"{text} ...")
    start = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - start:.0f} s")


class Environment:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = path / "bin" / "python"
        self.stamps = path / ".isthmus"

    def works(self) -> bool:
        """A folder that was copied, or whose Python is gone, is not an environment any more."""
        try:
            return subprocess.run([self.python, "-c", "import pip"], capture_output=True).returncode == 0
        except OSError:
            return False

    def make(self) -> None:
        if self.works():
            return
        base = newest_python()
        with step(f"making {self.path.name} with {base}"):
            shutil.rmtree(self.path, ignore_errors=True)
            if subprocess.run([base, "-m", "venv", self.path]).returncode == 0:
                return
            # Some distributions ship venv without ensurepip; a pip of their own can still fill the environment.
            shutil.rmtree(self.path, ignore_errors=True)
            run(base, "-m", "venv", "--without-pip", self.path)
            seed = [base, "-m", "pip", "--python", self.python, "install", "pip"]
            if subprocess.run(seed).returncode:
                shutil.rmtree(self.path, ignore_errors=True)
                fail(f"{base} has neither ensurepip nor pip; install it (Debian, Ubuntu: apt install python3-venv)")

    def stamped(self, name: str, mark: str) -> bool:
        stamp = self.stamps / name
        return stamp.is_file() and stamp.read_text() == mark

    def stamp(self, name: str, mark: str) -> None:
        self.stamps.mkdir(exist_ok=True)
        (self.stamps / name).write_text(mark)

    def free_threaded(self) -> bool:
        ask = "import sys, sysconfig; sys.exit(not sysconfig.get_config_var('Py_GIL_DISABLED'))"
        return subprocess.run([self.python, "-c", ask]).returncode == 0

    def pip_install(self, *arguments: str | Path) -> bool:
        command = [self.python, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, cwd=ROOT).returncode == 0


def newest_python() -> str:
    if sys.version_info >= OLDEST_PYTHON:
        return sys.executable
    for minor in range(19, OLDEST_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    fail(f"Python 3.{OLDEST_PYTHON[1]} or newer is needed; {sys.executable} is {sys.version.split()[0]}")
    return ""


def requirements_text(group: str) -> str:
    """The text of a group with the files it includes."""
    path = ROOT / "requirements" / f"{group}.txt"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.txt")))
        fail(f"no requirement group {group!r}; there are: {known}")
    text = path.read_text()
    return re.sub(r"(?m)^-r (\S+)\.txt$", lambda m: requirements_text(m[1]), text)


def missing_build_tools() -> list[str]:
    missing = []
    for program, oldest, requirement in BUILD_TOOLS:
        try:
            shown = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        except OSError:
            shown = ""
        version = re.search(r"(\d+)\.(\d+)", shown)
        if not version or tuple(map(int, version.groups())) < oldest:
            missing.append(requirement)
    return missing


def check_compiler(environment: Environment) -> None:
    """Said here, in one line, rather than by CMake in twenty."""
    if not (os.environ.get("CXX") or any(map(shutil.which, ("c++", "g++", "clang++")))):
        fail("no C++ compiler found; install one that knows C++20 (Debian, Ubuntu: apt install g++)")
    ask = "import os, sysconfig; print(os.path.join(sysconfig.get_path('include'), 'Python.h'))"
    header = subprocess.run([environment.python, "-c", ask], capture_output=True, text=True).stdout.strip()
    if not Path(header).is_file():
        fail(f"{header} is missing: install Python's headers (Debian, Ubuntu: apt install python3-dev)")


def install_without_some(environment: Environment, text: str) -> bool:
    """All but OFTEN_WITHOUT_WHEELS, of which <dlpack/dlpack.h> is taken where it was among them;
    False where that cannot be."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    left_out = [line for line in lines if line.startswith(OFTEN_WITHOUT_WHEELS)]
    if not left_out or not environment.free_threaded():
        return False
    say(
        f"no wheel, or none of what it needs, for this interpreter without the GIL: {', '.join(left_out)}; going on "
        "without"
    )
    rest = [line for line in lines if line not in left_out]
    headers = [line for line in left_out if line.startswith("apache-tvm-ffi")]
    done = not rest or environment.pip_install(*rest, *missing_build_tools(), "-c", TESTED)
    return done and all(install_dlpack(environment, line) for line in headers)


def install_dlpack(environment: Environment, requirement: str) -> bool:
    """The header alone, out of a wheel that is made for another interpreter, to where CMake looks for it."""
    with tempfile.TemporaryDirectory() as folder:
        other = [
            "--only-binary=:all:",
            "--python-version=3.13",
            "--abi=cp313",
            "--abi=abi3",
            "--no-deps",
            "--target",
            folder,
        ]
        if not environment.pip_install(*other, requirement):
            return False
        header = Path("dlpack", "dlpack.h")
        place = environment.path / "include" / header
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder, "tvm_ffi", "include", header), place)
    return True


def install_group(environment: Environment, group: str, newest: bool) -> None:
    text = requirements_text(group)
    mark = hashlib.sha256((text + ("newest" if newest else TESTED.read_text())).encode()).hexdigest()
    if environment.stamped(group, mark):
        return
    wanted: list[str | Path] = ["-r", ROOT / "requirements" / f"{group}.txt"]
    if environment.free_threaded():
        wanted.append(ONLY_WHEELS)
    if group == "build":
        check_compiler(environment)
        wanted += missing_build_tools()
    pins_versions = re.search(r"(?m)^[^#]*==", text)
    with step(f"installing requirements/{group}.txt into {environment.path.name}"):
        if newest:
            done = environment.pip_install("--upgrade", *wanted)
        else:
            done = not pins_versions and environment.pip_install(*wanted, "-c", TESTED)
            if not done and not pins_versions:
                say(f"not every version of requirements/{TESTED.name} can be had here: taking what can")
            done = done or environment.pip_install(*wanted)
        if not done and not pins_versions:
            done = install_without_some(environment, text)
        if not done:
            fail(f"requirements/{group}.txt could not be installed")
    environment.stamp(group, mark)


def sources_hash() -> str:
    digest = hashlib.sha256()
    for name in PACKAGE_SOURCES:
        path = ROOT / name
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def install_package(environment: Environment) -> None:
    mark = sources_hash()
    if environment.stamped("package", mark):
        return
    name = environment.path.name.lstrip(".")
    log = ROOT / "build" / f"package-{name}.log"
    # Each environment keeps its own objects, or two of them would undo each other's builds.
    os.environ["SKBUILD_BUILD_DIR"] = f"build/package-{name}"
    with step(f"building isthmus and installing it into {environment.path.name}"):
        # pip shows either nothing of a build or all of it; the compiler's progress is what a developer wants to see.
        command = [environment.python, "-m", "pip", "install", "--disable-pip-version-check", "--verbose",
                   "--no-build-isolation", "--no-deps", "--force-reinstall", ROOT]  # fmt: skip
        with (
            open(log, "w") as kept,
            subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as pip,
        ):
            assert pip.stdout is not None
            for line in pip.stdout:
                kept.write(line)
                if re.match(r"\s*\[\d+/\d+\] (Building|Linking)|.*\b(warning|error):", line):
                    print(line.rstrip(), flush=True)
        if pip.returncode:
            print("".join(log.read_text().splitlines(keepends=True)[-60:]))
            fail(f"the package could not be built; the whole log is {log.relative_to(ROOT)}")
    environment.stamp("package", mark)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="the environment's folder")
    parser.add_argument("--package", action="store_true", help="also build and install isthmus itself")
    parser.add_argument(
        "--newest", action="store_true", help="the newest versions, not those of requirements/tested.txt"
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="a file of requirements/, without .txt")
    options = parser.parse_args()

    environment = Environment((ROOT / options.venv).absolute())
    # The environment's own tools go first, for pip's build and for the search for cmake and ninja alike.
    os.environ["PATH"] = f"{environment.path / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with open(build / f".{environment.path.name}.lock", "w") as lock:
        # Two runs of make at once take turns: pip must not run twice in one environment.
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment.make()
        for group in options.groups:
            install_group(environment, group, options.newest)
        if options.package:
            install_package(environment)


if __name__ == "__main__":
    main()
