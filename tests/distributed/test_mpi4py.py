"""Tensors through mpi4py's pickled calls, in band and out of band, between two ranks."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")


MPI = pytest.importorskip(
    "mpi4py.MPI", reason="mpi4py is not installed, or without an MPI", exc_type=(ImportError, RuntimeError)
)
import launching  # noqa: E402  # beside this file

RANKS = Path(__file__).parent / "support" / "mpi_ranks.py"


def test_two_ranks():
    launcher = launching.mpiexec()
    if launcher is None:
        pytest.skip("no mpiexec")
    command = [launcher, "-n", "2", sys.executable, str(RANKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert (done.returncode, done.stdout.split()) == (0, ["good", "good"]), done.stdout + done.stderr


def test_disable_restores_the_picklers_of_the_user():
    from mpi4py.util import pkl5

    def dumps(x, protocol=None, **rest):
        return b"mine" + pickle.dumps(x, protocol, **rest)

    def loads(data, **rest):
        return pickle.loads(bytes(data)[4:] if bytes(data)[:4] == b"mine" else data, **rest)

    x = torch.ones(3, dtype=torch.bfloat16)
    MPI.pickle.__init__(dumps, loads, 4)
    try:
        isthmus.distributed.enable("mpi4py")
        isthmus.distributed.enable("mpi4py")
        assert torch.equal(MPI.pickle.loads(MPI.pickle.dumps(x)), x)
        assert b"isthmus" in MPI.pickle.dumps(x)
        assert b"isthmus" in pkl5.pickle.dumps(x)
        # What pickle cannot do the user's own function does.
        isthmus.distributed.disable("mpi4py")
        assert MPI.pickle.dumps(x)[:4] == b"mine"
        assert MPI.pickle.PROTOCOL == 4
        assert b"isthmus" not in pkl5.pickle.dumps(x)
    finally:
        MPI.pickle.__init__()


def test_numpy_arrays_alone_are_pickled_by_numpy():
    """In the time that it takes by default, if that gives arrays which can be written."""
    x = np.arange(1000.0)
    read_only = x.copy()
    read_only.flags.writeable = False
    holder = np.empty(1, object)
    holder[0] = torch.ones(3)
    isthmus.distributed.enable("mpi4py")
    try:
        for message in (x, [x], (x, x.reshape(2, 500)), [np.arange(100_000.0)], x.astype("M8[s]"), [x] * 9):
            assert MPI.pickle.dumps(message) == pickle.dumps(message, MPI.pickle.PROTOCOL)
        ours = (read_only, x[::2], np.arange(200_001.0), holder, [x, 3], [x, torch.ones(3)], [x[:500]] * 9, {"x": x})
        for message in ours:
            assert b"isthmus" in MPI.pickle.dumps(message)
        for one in (*ours[:3], [x[:500]] * 9):
            y = MPI.pickle.loads(MPI.pickle.dumps(one))
            assert np.array_equal(one, y)
            assert all(part.flags.writeable for part in (y if type(y) is list else [y]))
        for policy in ("tensor", "copy"):
            isthmus.distributed.enable("mpi4py", policy)
            assert b"isthmus" in MPI.pickle.dumps(x)
    finally:
        isthmus.distributed.disable("mpi4py")
