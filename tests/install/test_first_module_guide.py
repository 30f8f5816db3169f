"""docs/first_module.md: its programs run, and its commands build what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import CXX
from readmes import shell

isthmus = pytest.importorskip("isthmus")
np = pytest.importorskip("numpy")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "first_module.md").read_text()


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)[number]


def test_the_string(tmp_path: Path) -> None:
    environment = {**os.environ, "ISTHMUS_CACHE_DIR": str(tmp_path), "CXX": CXX}
    subprocess.run([sys.executable, "-c", block("python")], check=True, env=environment)
    assert list(tmp_path.glob("*.so"))


def test_the_file(tmp_path: Path) -> None:
    (tmp_path / "first.cpp").write_text(block("cpp"))
    shell(block("sh").replace("g++ -O2", f"{CXX} -O0 -Wall -Wextra -Werror"), tmp_path)
    use = "import numpy as np, first; x = np.ones(2, np.float32); first.scale(x, k=3); assert x.tolist() == [3, 3]"
    subprocess.run([sys.executable, "-c", use], check=True, cwd=tmp_path)


def test_a_module_that_runs_without_the_gil(tmp_path: Path) -> None:
    """The third argument; an interpreter that has a GIL does not look at it."""
    source = block("cpp").replace("(first, m)", "(first, m, isthmus::free_threaded)")
    (tmp_path / "first.cpp").write_text(source)
    shell(
        f"{CXX} -O0 -shared $(python -m isthmus --cflags) first.cpp $(python -m isthmus --ldflags) -o first.so",
        tmp_path,
    )
    use = "import sys, first; assert not getattr(sys, '_is_gil_enabled', bool)()"
    if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled():
        use = "import first"
    subprocess.run([sys.executable, "-c", use], check=True, cwd=tmp_path)
