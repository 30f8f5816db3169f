"""Programs give the same answers with and without enable(): also with workers that come later, are killed, or were
never enabled, however processes are started, and with exceptions kept."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import processes
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")

import launching  # noqa: E402  # beside this file

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "distributed" / "support" / "programs.py"
PAGE = ROOT / "docs" / "distributed.md"


def run(*command: str, launcher: list[str] | None = None) -> list[str]:
    # A forked child has none of the threads that torch computes with, and would wait for them.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [*(launcher or []), sys.executable, *command]
    with processes.waiting_at_most(200):
        done = subprocess.run(words, capture_output=True, text=True, timeout=190, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "(raylet)" not in line]


@pytest.mark.parametrize(
    ("engine", "start"),
    [
        *((engine, start) for engine in ("multiprocessing", "dask") for start in ("fork", "forkserver", "spawn")),
        *((engine, "") for engine in ("joblib", "ray")),
    ],
)
def test_the_same_answers(engine: str, start: str) -> None:
    if engine != "multiprocessing":
        pytest.importorskip({"dask": "distributed"}.get(engine, engine))
    command = [str(PROGRAMS), engine]
    default, enabled = (run(*command, way, *filter(None, [start])) for way in ("default", "enabled"))
    assert len(default) > 10
    for ours, theirs in zip(enabled, default, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("way", ["", "pkl5"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_same_answers_of_ranks(ranks: int, way: str) -> None:
    pytest.importorskip("mpi4py.MPI", reason="mpi4py, or an MPI", exc_type=(ImportError, RuntimeError))
    launcher = launching.mpiexec()
    if launcher is None and ranks > 1:
        pytest.skip("no mpiexec")
    started = [launcher, "-n", str(ranks)] if launcher is not None and ranks > 1 else None
    command = [str(PROGRAMS), "mpi4py"]
    default, enabled = (run(*command, how, way, launcher=started) for how in ("default", "enabled"))
    assert len(default) > 10
    assert enabled == default


@functools.cache
def programs_of_the_page() -> list[str]:
    return [block.partition("```")[0] for block in PAGE.read_text().split("```python\n")[1:]]


SETTING = """
import torch, isthmus
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 640
    def __getitem__(self, i): return torch.full((2000,), float(i * i))
dataset = Squares()
"""


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_the_program_of_the_page(start: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    text = programs_of_the_page()[0]
    assert text.count('get_context("spawn")') == 1
    program.write_text(text.replace('get_context("spawn")', f'get_context("{start}")'))
    assert run(str(program)) == ["[2000000.0, 2000000.0]", "1000000.0"]
    # torch's own way shows every process the writes of the others, NumPy's does not.
    text = text.replace("import torch", "import numpy").replace("torch.ones(1000, 1000)", "numpy.ones((1000, 1000))")
    for engine in ("isthmus.distributed.enable", "str"):
        program.write_text(text.replace("isthmus.distributed.enable", engine))
        assert run(str(program))[-2:] == ["[2000000.0, 2000000.0]", "1000000.0"]


def test_the_loader_of_the_page(tmp_path: Path) -> None:
    (text,) = [block for block in programs_of_the_page() if "DataLoader" in block]
    program = tmp_path / "program.py"
    answers = []
    for enabled in (True, False):
        own = text.replace(", collate_fn=isthmus.distributed.collate", "")
        own = own.replace("isthmus.distributed.enable", "str")
        program.write_text(SETTING + (text if enabled else own) + "print(*(float(batch.sum()) for batch in loader))\n")
        answers.append(run(str(program))[-1])
    assert answers[0] == answers[1]
