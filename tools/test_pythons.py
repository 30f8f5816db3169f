#!/usr/bin/env python3
"""Run the lite suite on every CPython from 3.10 up that the machine has, and the full one on 3.12 as well.

Usage:
    tools/test_pythons.py [VERSION ...]    for example 3.13 3.13t, in this order; without versions every one found

The wheel of examples/one_wheel is built once, and its tests run on each. Each has its own environment (.venv-py3.X)
and build folder (build/py3.X). Interpreters that are not on PATH are named by ISTHMUS_PYTHONS, with colons between
them. A free-threaded one (python3.14t) is another version than that with the GIL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import run_tests

# Where JAX and NumPy have newer versions than on the older interpreters, which behave differently.
FULL = "3.12"
TESTED = run_tests.ROOT / "requirements" / "tested.txt"
ASK = """
import sys, sysconfig
letter = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(sys.implementation.name, "%d.%d" % sys.version_info[:2] + letter, sys.executable)
"""


def candidates() -> list[Path]:
    named = [Path(p) for p in os.environ.get("ISTHMUS_PYTHONS", "").split(os.pathsep) if p]
    names = [f"python3.{minor}{letter}" for minor in range(10, 20) for letter in ("", "t")]
    found = named + [Path(p) for name in names if (p := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return found + sorted(root.glob("versions/3.*/bin/python"))


def order(version: str) -> tuple[int, bool]:
    """3.13, 3.13t, 3.14."""
    return int(version.rstrip("t").split(".")[1]), version.endswith("t")


def interpreters() -> dict[str, str]:
    """Each version once: the name that works, for a version manager's shim may answer for none."""
    by_version: dict[str, str] = {}
    for path in [Path(sys.executable), *candidates()]:
        shown = subprocess.run([path, "-c", ASK], capture_output=True, text=True)
        if shown.returncode:
            continue
        name, version, executable = shown.stdout.strip().split(" ", 2)
        minor, free_threaded = order(version)
        if name == "cpython" and minor >= (13 if free_threaded else 10):
            by_version.setdefault(version, executable)
    return dict(sorted(by_version.items(), key=lambda item: order(item[0])))


def chosen(wanted: list[str]) -> dict[str, str]:
    """Those of the expected versions, in their order; all that there are where none is named."""
    found = interpreters()
    if missing := [version for version in wanted if version not in found]:
        here = f"no CPython {', '.join(missing)} here, only {', '.join(found)}"
        sys.exit(f"[isthmus] {here}; ISTHMUS_PYTHONS names interpreters that are not on PATH")
    return {version: found[version] for version in wanted or found}


def place_of(version: str, suite: str) -> str:
    return f"py{version}" + ("-lite" if suite == "test-lite" else "")


def build_one_wheel(version: str, executable: str) -> Path:
    """The wheel of examples/one_wheel, by this interpreter and its lite environment."""
    root, folder = run_tests.ROOT, run_tests.ROOT / "build" / "one_wheel"
    shutil.rmtree(folder, ignore_errors=True)
    venv = root / f".venv-{place_of(version, 'test-lite')}"
    python, tools = venv / "bin" / "python", folder / "tools"
    groups = ["build", "test-lite", "--package"]
    subprocess.run([executable, root / "tools" / "bootstrap.py", "--venv", venv, *groups], cwd=root, check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    # Not into the environment: the lite suite runs without a binder.
    subprocess.run([*pip, "install", "--quiet", "--target", tools, "nanobind>=3", "-c", TESTED], check=True)
    paths = {
        "nanobind_DIR": str(tools / "nanobind" / "cmake"),
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    make = [*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*make, root / "examples" / "one_wheel"], env={**os.environ, **paths}, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> int:
    names = []
    found = chosen(sys.argv[1:])
    print(f"[isthmus] interpreters: {', '.join(found)}", flush=True)
    with_gil = [version for version in found if not version.endswith("t")]
    if with_gil:
        try:
            os.environ["ISTHMUS_ONE_WHEEL"] = str(build_one_wheel(with_gil[0], found[with_gil[0]]))
        except subprocess.CalledProcessError as error:
            names.append("one-wheel")
            run_tests.save(names[-1], run_tests.Counts(failed=1, failures=[str(error)]))
    for version, executable in found.items():
        for suite in ["test-lite", "test"] if version == FULL else ["test-lite"]:
            name = f"{suite}-py{version}"
            names.append(name)
            run_tests.forget(name)
            print(f"[isthmus] {name}", flush=True)
            place = place_of(version, suite)
            settings = {
                "PYTHON": executable,
                "NAME": name,
                "VENV": f".venv-{place}",
                "LITE": f".venv-{place}",
                "BUILD": f"build/{place}",
            }
            command = ["make", "--no-print-directory", suite, *(f"{key}={value}" for key, value in settings.items())]
            subprocess.run(command, cwd=run_tests.ROOT)
    total = run_tests.Counts()
    for name in names:
        print(f"[isthmus] {name}: {run_tests.load(name)}")
        total += run_tests.load(name)
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
