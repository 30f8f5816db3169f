"""The programs of docs/shared.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "shared.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)


@pytest.mark.parametrize(("number", "output"), [(0, "7\n"), (1, "".join(f"[{i}. {i}. {i}. {i}.]\n" for i in range(3)))])
def test_python(number: int, output: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(blocks("python")[number])
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, output), done.stderr


def test_cpp(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(blocks("cpp")[0])
    includes = [f"-I{folder}" for folder in isthmus.get_includes()]
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-DISTHMUS_IMPLEMENTATION"]
    command = ["c++", *flags, *includes, "program.cpp", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
