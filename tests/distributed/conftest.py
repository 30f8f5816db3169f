"""What the tests of engines share: tensors to send, and a limit on every wait for another process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest

SUPPORT = str(Path(__file__).resolve().parent / "support")
sys.path.insert(0, SUPPORT)
# Workers that are started anew find the modules of the tests, too.
os.environ["PYTHONPATH"] = processes.environment(SUPPORT, processes.SUPPORT)["PYTHONPATH"]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# With the engines and the time that they take: `make test-distributed`.
if sys.platform != "linux" or "ISTHMUS_ENGINES" not in os.environ:
    collect_ignore_glob = ["test_*"]

#: Seconds; a busy machine needs more.
LONGEST = int(os.environ.get("ISTHMUS_LONGEST_WAIT", "40"))


@pytest.fixture(autouse=True)
def limited():
    with processes.waiting_at_most(LONGEST):
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """A forked child has none of the threads that its parent computes with, and would wait for them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def rays_of_this_process() -> Iterator[None]:
    """`ray.init()` joins a cluster whose address is in Ray's folder: those of another process are not in this one."""
    # A short name: the path of a socket has 107 bytes at most.
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as own,
    ):
        own.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(autouse=True)
def as_before():
    """No engine stays enabled."""
    yield
    import isthmus

    for engine in ("multiprocessing", "joblib", "dask", "mpi4py", "ray"):
        isthmus.distributed.disable(engine)
