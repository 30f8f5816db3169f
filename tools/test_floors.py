#!/usr/bin/env python3
"""The oldest versions that requirements/ admit: installed beside the newest, and the tests run with them.

Usage:
    tools/test_floors.py --venv DIR --install     installs the oldest NumPy, nanobind and pybind11,
                                                  each in DIR/NAME-VERSION
    tools/test_floors.py --venv DIR --build DIR   also builds the casters' tests with them, and runs those and NumPy's

The oldest version of a library is the number behind its `>=` in requirements/test-lite.txt and requirements/test.txt.
There is no other list. PyTorch has an environment of its own (`make test-old-torch`).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import run_tests

ROOT = run_tests.ROOT
LIBRARIES = ("numpy", "nanobind", "pybind11")
#: The first NumPy of the second ABI, which extensions meet in another way than the floor's.
ALSO = {"numpy": ["2.0"]}
#: NumPy's own ways in and out. Where NumPy judges DLPack, it has to be 2.1 or newer, which knows its versions.
NUMPY_TESTS = [
    "tests/python/framework/test_import_numpy.py",
    "tests/python/framework/test_export_numpy.py",
    "tests/python/protocol/test_import_array_interface.py",
    "tests/python/protocol/test_export_interfaces.py",
    "tests/python/protocol/test_import_buffer.py",
]
TARGETS = ("isthmus_test_ext", "isthmus_nanobind_test_ext", "isthmus_pybind11_test_ext")


def floor(library: str) -> str:
    """The oldest version of a library that the tests' requirements admit, for example "1.26"."""
    text = "".join((ROOT / "requirements" / f"{name}.txt").read_text() for name in ("test-lite", "test"))
    found = re.search(rf"(?m)^{library}>=([\d.]+)", text)
    if not found:
        sys.exit(f"[isthmus] requirements/test-lite.txt and test.txt name no oldest {library}")
    return found[1]


def folder(venv: Path, library: str, version: str | None = None) -> Path:
    return venv / f"{library}-{version or floor(library)}"


def install(venv: Path) -> None:
    """What is there stays; a Python that is too new for a version goes without it."""
    for library in LIBRARIES:
        for version in [floor(library), *ALSO.get(library, [])]:
            target = folder(venv, library, version)
            if target.is_dir():
                continue
            command = [
                venv / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "--quiet",
                "--no-deps",
            ]
            command += ["--only-binary=:all:", "--target", target, f"{library}=={version}.*"]
            if subprocess.run(command).returncode:
                print(f"[isthmus] {library} {version} cannot be had for this Python", flush=True)


def paths(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def run(venv: Path, build: Path) -> run_tests.Counts:
    python = venv / "bin" / "python"
    binders = [folder(venv, library) for library in ("nanobind", "pybind11")]
    # CMake asks this Python where the two libraries are.
    configure = [
        "cmake",
        "--preset",
        "dev",
        "-B",
        build,
        f"-DPython_EXECUTABLE={python}",
        "-DISTHMUS_CHECK_HEADERS=OFF",
    ]
    with open(ROOT / "build" / "configure.log", "w") as log:
        subprocess.run(configure, cwd=ROOT, env=paths(*binders), stdout=log, check=True)
    subprocess.run(["cmake", "--build", build, "--target", *TARGETS], cwd=ROOT, check=True)
    total = run_tests.Counts()
    for version in [floor("numpy"), *ALSO["numpy"]]:
        numpy = folder(venv, "numpy", version)
        if not numpy.is_dir():
            continue
        print(f"[isthmus] NumPy {version}, nanobind {floor('nanobind')}, pybind11 {floor('pybind11')}", flush=True)
        counts = run_tests.run_pytest(build, python, [*NUMPY_TESTS, "tests/casters"], paths(numpy, *binders))
        print(f"[isthmus] NumPy {version}: {counts}", flush=True)
        total += counts
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=Path("build/floors"))
    parser.add_argument("--install", action="store_true", help="install the floors, and run nothing")
    parser.add_argument("--name", default="test-floors")
    options = parser.parse_args()
    venv = (ROOT / options.venv).absolute()
    install(venv)
    if options.install:
        return 0
    run_tests.forget(options.name)
    counts = run(venv, (ROOT / options.build).absolute())
    run_tests.save(options.name, counts)
    print(counts)
    return 1 if counts.failed or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
