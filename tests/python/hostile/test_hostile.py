"""Every hostile producer, each in a process of its own: a crash is a failure,
and so is an outcome that was not expected."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import processes
import pytest
from fork_server import ForkServer

ext = pytest.importorskip("isthmus_test_ext")

HERE = Path(__file__).resolve().parent
# Freed memory is overwritten, and writing past a block is found.
MALLOC = os.environ.get("PYTHONMALLOC", "debug")
SERVER = ForkServer(
    f"import sys; sys.path.insert(0, {str(HERE)!r}); import run_case",
    processes.environment(Path(ext.__file__).parent, PYTHONMALLOC=MALLOC),
)


def run_case(*names: str) -> subprocess.CompletedProcess[str]:
    return SERVER.run("import run_case, sys; run_case.main(sys.argv[1:])", *names, timeout=60)


@pytest.mark.parametrize("name", run_case().stdout.split())
def test_case(name: str) -> None:
    done = run_case(name)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def test_the_corpus_is_there() -> None:
    done = run_case()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 250
