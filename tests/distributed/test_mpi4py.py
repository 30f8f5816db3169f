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


def test_a_numpy_array_alone_is_pickled_by_numpy():
    """In the time that it takes by default, under the policies of both ends."""
    x = np.arange(1000.0)
    x_read_only = x.copy()
    x_read_only.flags.writeable = False
    isthmus.distributed.enable("mpi4py")
    try:
        assert MPI.pickle.dumps(x) == pickle.dumps(x, MPI.pickle.PROTOCOL)
        read_only = (x_read_only, x_read_only[:100])
        for one in (x, x.reshape(2, 500).T, np.arange(200_000.0), x[::2], x.astype("M8[s]"), *read_only):
            before = isthmus.distributed.stats()
            y = MPI.pickle.loads(MPI.pickle.dumps(one))
            assert (type(y), y.dtype, y.flags.writeable) == (np.ndarray, one.dtype, True)
            assert np.array_equal(one, y)
            after = isthmus.distributed.stats()
            assert sum(after[name] - before[name] for name in ("inline", "shared", "copy_on_write", "copied")) == 1
        holder = np.empty(1, object)
        holder[0] = torch.ones(3)
        assert b"isthmus" in MPI.pickle.dumps(holder)
        sent = MPI.pickle.dumps(x)
        isthmus.distributed.enable("mpi4py", "tensor")
        assert b"isthmus" in MPI.pickle.dumps(x)
        y = MPI.pickle.loads(sent)
        assert type(y) is isthmus.Tensor
        assert np.array_equal(np.asarray(y), x)
        isthmus.distributed.enable("mpi4py", "copy")
        assert MPI.pickle.loads(sent).flags.writeable
    finally:
        isthmus.distributed.disable("mpi4py")
