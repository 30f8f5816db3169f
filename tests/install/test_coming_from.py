"""The programs of docs/coming_from.md compile as they stand there: the other library's, and ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from compiling import package_folder

isthmus = pytest.importorskip("isthmus")

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "coming_from.md").read_text()
PROGRAMS = [
    (section.splitlines()[0], number, program)
    for section in GUIDE.split("\n## ")[1:]
    for number, program in enumerate(re.findall(r"(?ms)^```cpp\n(.*?)^```$", section))
]
THERE, HERE = re.findall(r"(?ms)^```rust\n(.*?)^```$", GUIDE)
CXX = shutil.which("c++") or "c++"
#: A copy of include/ to test in place of the installed one.
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())


def folders(package: str) -> list[str]:
    """Where a package of Python keeps its headers."""
    found = package_folder(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    return [f"-isystem{found / 'include'}"]


@pytest.mark.slow
@pytest.mark.parametrize(("section", "number", "program"), PROGRAMS, ids=[f"{name} {i}" for name, i, _ in PROGRAMS])
def test_it_compiles(section: str, number: int, program: str, tmp_path: Path) -> None:
    includes = [f"-isystem{folder}" for folder in [INCLUDE, *isthmus.get_includes(), sysconfig.get_path("include")]]
    for header, package in (("nanobind", "nanobind"), ("pybind11", "pybind11"), ("tvm/ffi", "tvm_ffi")):
        if re.search(rf"#include <(?:isthmus/)?{header}[/.]", program):
            includes += folders(package)
    if "#include <torch/" in program:
        includes += (torch := folders("torch")) + [f"{folder}/torch/csrc/api/include" for folder in torch]
    source = tmp_path / "program.cpp"
    source.write_text(program)
    command = [CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *includes, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def check_crate(program: str, dependencies: str, folder: Path, *arguments: str) -> None:
    """`cargo check` of a library of one file; nothing is downloaded with --offline."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").write_text(program)
    manifest = f'[package]\nname = "example"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{dependencies}\n'
    (folder / "Cargo.toml").write_text(manifest)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "PYO3_PYTHON": sys.executable}
    command = ["cargo", "check", "--quiet", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]


def test_rust_here(tmp_path: Path) -> None:
    check_crate(HERE, f'isthmus = {{ path = "{ROOT / "examples" / "rust"}" }}', tmp_path, "--offline")


@pytest.mark.skipif("ISTHMUS_CRATES" not in os.environ, reason="downloads crates and takes a minute: ISTHMUS_CRATES=1")
def test_rust_there(tmp_path: Path) -> None:
    check_crate(THERE, 'pyo3 = "0.30"\nnumpy = "0.30"', tmp_path)


def test_both_sides_are_there() -> None:
    programs = [program for _, _, program in PROGRAMS]
    assert len(programs) >= 10
    assert sum("#include <isthmus/" in program for program in programs) >= 5
