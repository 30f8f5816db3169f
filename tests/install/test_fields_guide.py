"""The programs of docs/fields.md compile as they stand there."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")
nanobind = pytest.importorskip("nanobind")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "fields.md").read_text()


@pytest.mark.parametrize("program", re.findall(r"(?ms)^```cpp\n(.*?)^```$", GUIDE))
def test_it_compiles(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(program)
    own = [f"-I{folder}" for folder in isthmus.get_includes()]
    others = [f"-isystem{folder}" for folder in (nanobind.include_dir(), sysconfig.get_path("include"))]
    command = [
        "c++",
        "-std=c++20",
        "-fsyntax-only",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
        *own,
        *others,
    ]
    done = subprocess.run([*command, "program.cpp"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
