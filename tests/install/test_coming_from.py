"""The programs of docs/coming_from.md compile as they stand there: the other library's, and ours."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text()
PROGRAMS = [
    (section.splitlines()[0], number, program)
    for section in GUIDE.split("\n## ")[1:]
    for number, program in enumerate(re.findall(r"(?ms)^```cpp\n(.*?)^```$", section))
]
CXX = shutil.which("c++") or "c++"
#: A copy of include/ to test in place of the installed one.
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())


def folders(package: str) -> list[str]:
    """Where a package of Python keeps its headers."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return [f"-isystem{Path(found.submodule_search_locations[0]) / 'include'}"]


@pytest.mark.parametrize(("section", "number", "program"), PROGRAMS, ids=[f"{name} {i}" for name, i, _ in PROGRAMS])
def test_it_compiles(section: str, number: int, program: str, tmp_path: Path) -> None:
    includes = [f"-isystem{folder}" for folder in [INCLUDE, *isthmus.get_includes(), sysconfig.get_path("include")]]
    for header, package in (("nanobind", "nanobind"), ("pybind11", "pybind11"), ("tvm/ffi", "tvm_ffi")):
        if re.search(rf"#include <(?:isthmus/)?{header}[/.]", program):
            includes += folders(package)
    source = tmp_path / "program.cpp"
    source.write_text(program)
    command = [CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *includes, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def test_both_sides_are_there() -> None:
    programs = [program for _, _, program in PROGRAMS]
    assert len(programs) >= 9
    assert sum("#include <isthmus/" in program for program in programs) >= 5
