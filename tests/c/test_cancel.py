"""pthread_cancel of a thread that is inside an owner's release."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import isthmus

SOURCE = Path(__file__).resolve().parent / "programs" / "cancel.c"


@pytest.fixture(scope="module")
def program(libisthmus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cancel") / "cancel"
    command = ["cc", "-std=c11", "-O2", f"-I{isthmus.get_include()}", SOURCE, "-o", out, libisthmus, "-pthread"]
    done = subprocess.run([*map(str, command), f"-Wl,-rpath,{libisthmus.parent}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("way", ["release", "deleter", "alias", "blob"])
def test_a_cancelled_thread_can_be_joined(program: Path, needs, way: str) -> None:
    needs("cc")
    done = subprocess.run([program, way], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout == "joined, released at most once\n"
