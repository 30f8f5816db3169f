"""docs/records.md: its module, over the bare API, does in Python what the page shows."""

from __future__ import annotations

import importlib.machinery
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import CXX

isthmus = pytest.importorskip("isthmus")
pytest.importorskip("numpy")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "records.md"


def block(language: str) -> str:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE.read_text())[0]


@pytest.mark.parametrize("mode", ["library", "abi3"])
def test_it_does_what_the_page_shows(mode: str, tmp_path: Path) -> None:
    (tmp_path / "cloud.cpp").write_text(block("cpp"))
    (tmp_path / "session.txt").write_text(block("pycon"))
    modes = {"library": (isthmus.get_cflags(), isthmus.get_ldflags()), "abi3": (isthmus.get_cflags(abi3=True), [])}
    compile_flags, link_flags = modes[mode]
    name = f"cloud{importlib.machinery.EXTENSION_SUFFIXES[-1] if mode == 'library' else '.abi3.so'}"
    warnings = ["-O0", "-Wall", "-Wextra", "-Werror", "-shared"]
    subprocess.run([CXX, *warnings, *compile_flags, "cloud.cpp", *link_flags, "-o", name], check=True, cwd=tmp_path)
    run = "import doctest; assert doctest.testfile('session.txt', module_relative=False)[0] == 0"
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
