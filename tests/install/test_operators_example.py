"""examples/operators, built as a user builds it: one kernel in torch.compile, jax.jit and a ufunc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")
pytest.importorskip("isthmus")

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "operators" / "fit.py"


def test_the_same_fit_by_torch_and_jax(build_example: Callable[..., Path]) -> None:
    build = build_example("operators", missing={"nanoflann_dir": "nanoflann is not installed"})
    done = subprocess.run(
        [sys.executable, SCRIPT, "aot_eager"],
        env=os.environ | {"PYTHONPATH": str(build)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    start, torch, jax = (float(re.search(r"[\d.]+$", line)[0]) for line in lines[:3])
    assert max(torch, jax) < start / 10
    assert lines[3].split() == ["both", "fits", "agree"]
