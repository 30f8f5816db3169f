"""Where MPI's launcher is: beside this Python, if MPI came from PyPI."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def mpiexec() -> str | None:
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")
