"""The shortest part of the soak; `make soak SOAK_ARGS=--short` runs the short form of all, with a build for each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("isthmus")

RUN = Path(__file__).resolve().parent / "run.py"


@pytest.mark.slow
@pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the soak brings sanitizers of its own")
@pytest.mark.parametrize("part", ["storm-release", "contended"])
def test_short(part: str) -> None:
    done = subprocess.run([sys.executable, RUN, "--short", "--only", part], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
