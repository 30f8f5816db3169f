"""Dask and MPI between two machines: networks, processes and shared memory apart, so that a cable is all they have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import processes
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")

import machine  # noqa: E402  # beside this file

SUPPORT = Path(machine.__file__).parent


def run(*command: str) -> str:
    """What it prints; skips where no second machine can be had."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or shutil.which("nsenter") is None:
        pytest.skip("no unshare, nsenter or ip")
    if subprocess.run([*machine.APART, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    with processes.waiting_at_most(300):
        done = subprocess.run([*machine.APART, sys.executable, *command], capture_output=True, text=True, timeout=280)
    if "machine" not in done.stdout:
        pytest.skip(f"no second machine here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("enabled", ["both", "one"])
def test_dask(enabled: str) -> None:
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    assert run(str(SUPPORT / "far_dask.py"), *(["one"] if enabled == "one" else [])).split() == ["machine", "good"]


def test_mpi() -> None:
    pytest.importorskip(
        "mpi4py.MPI", reason="mpi4py is not installed, or without an MPI", exc_type=(ImportError, RuntimeError)
    )
    assert sorted(run(str(SUPPORT / "far_mpi.py")).split()) == ["good", "good", "machine"]
