"""The header is read by compilers that know neither C++ nor DLPack."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"


@pytest.mark.parametrize("header", sorted(path.name for path in (INCLUDE / "isthmus" / "c").glob("*.h")))
@pytest.mark.parametrize("language", ["c11", "c17", "c++11", "c++20"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_stands_alone(compiler: str, language: str, header: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / "alone.c"
    source.write_text(f"#include <isthmus/c/{header}>\n#include <isthmus/c/{header}>\nisthmus_tensor* tensor;\n")
    folder = tmp_path / "include" / "isthmus"
    folder.mkdir(parents=True)
    (folder / "c").symlink_to(INCLUDE / "isthmus" / "c")  # without the headers beside it
    kind = "c++" if "+" in language else "c"
    flags = ["-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        [compiler, "-x", kind, f"-std={language}", *flags, f"-I{tmp_path / 'include'}", str(source)],
        capture_output=True,
        text=True,
        env=dict(os.environ, LC_ALL="C"),
    )
    assert done.returncode == 0, done.stderr
