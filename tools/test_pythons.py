#!/usr/bin/env python3
"""Run the lite suite on every CPython from 3.10 up that the machine has, and the full one on 3.12 as well.

Each has its own environment (.venv-py3.X) and build folder (build/py3.X).
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
ASK = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], sys.executable)"


def candidates() -> list[Path]:
    found = [Path(p) for minor in range(10, 20) if (p := shutil.which(f"python3.{minor}"))]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return found + sorted(root.glob("versions/3.*/bin/python"))


def interpreters() -> dict[str, str]:
    """Each version once: the name that works, for a version manager's shim may answer for none."""
    by_version: dict[str, str] = {}
    for path in [Path(sys.executable), *candidates()]:
        shown = subprocess.run([path, "-c", ASK], capture_output=True, text=True)
        if shown.returncode:
            continue
        name, version, executable = shown.stdout.strip().split(" ", 2)
        if name == "cpython" and tuple(map(int, version.split("."))) >= (3, 10):
            by_version.setdefault(version, executable)
    return dict(sorted(by_version.items(), key=lambda item: int(item[0].split(".")[1])))


def main() -> int:
    names = []
    found = interpreters()
    print(f"[isthmus] interpreters: {', '.join(found)}", flush=True)
    for version, executable in found.items():
        for suite in ["test-lite", "test"] if version == FULL else ["test-lite"]:
            name = f"{suite}-py{version}"
            names.append(name)
            run_tests.forget(name)
            print(f"[isthmus] {name}", flush=True)
            place = f"py{version}" + ("-lite" if suite == "test-lite" else "")
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
