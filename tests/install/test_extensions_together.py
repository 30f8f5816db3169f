"""Extensions of different projects in one process: of one version, of two, and one that only imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import isthmus

BUILDS = Path(__file__).resolve().parent / "builds"
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"

USE_PAIR = """
import gc, sys, one, other
for maker, taker in ((one, other), (other, one), (one, one)):
    t = maker.make()
    assert taker.address(t) == maker.address(t) == t.data_ptr, "the memory is the same"
same = {same}
assert (type(one.make()) is type(other.make())) == same
for module in (one, other):
    try:
        module.fail()
    except BufferError as error:
        assert error.code == "needs_copy"
t = one.make()
del one, sys.modules["one"]
gc.collect()
assert other.address(t) == t.data_ptr
"""

USE_IMPORTER = """
import numpy as np
{first}
{second}
x = np.zeros(3, np.float32)
t = isthmus.from_dlpack(x)
assert importer.address(x) == importer.address(t) == t.data_ptr
try:
    importer.fail()
except isthmus.Error as error:
    assert isinstance(error, BufferError)
else:
    raise AssertionError
assert t.to("numpy") is x
assert t.dtype.name == "float32"
"""


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def headers_of_another_version(folder: Path) -> Path:
    """A copy of the installed headers that claims the next ABI: what a later release would be."""
    include = folder / "include"
    shutil.copytree(isthmus.get_include(), include)
    config = include / "isthmus" / "core" / "config.h"
    text = config.read_text()
    tag = int(re.search(r"#define ISTHMUS_ABI (\d+)", text)[1])  # type: ignore[index]
    for path in include.rglob("*.h"):
        old = path.read_text()
        new = old.replace(f"abi{tag}", f"abi{tag + 1}").replace(f"ISTHMUS_ABI {tag}\n", f"ISTHMUS_ABI {tag + 1}\n")
        new = new.replace(f"ISTHMUS_ABI == {tag}", f"ISTHMUS_ABI == {tag + 1}")
        if new != old:
            path.write_text(new)
    return include


def extension(folder: Path, name: str, include: str | Path, *flags: str) -> None:
    python = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))").strip()
    run(CXX, "-std=c++20", "-shared", "-fPIC", *flags, f"-I{include}", f"-I{python}", f"-DMODULE={name}",
        BUILDS / "pair.cpp", "-o", folder / f"{name}.so")  # fmt: skip


@pytest.mark.parametrize("visibility", ["hidden", "default"])
def test_two_projects_of_one_version_share_their_objects(tmp_path: Path, visibility: str) -> None:
    for name in ("one", "other"):
        extension(tmp_path, name, isthmus.get_include(), f"-fvisibility={visibility}")
    run(sys.executable, "-c", USE_PAIR.format(same=True), cwd=tmp_path)


def test_two_projects_of_different_versions_meet_through_dlpack(tmp_path: Path) -> None:
    extension(tmp_path, "one", isthmus.get_include())
    extension(tmp_path, "other", headers_of_another_version(tmp_path))
    run(sys.executable, "-c", USE_PAIR.format(same=False), cwd=tmp_path)


@pytest.mark.parametrize("order", [("import importer", "import isthmus"), ("import isthmus", "import importer")])
def test_an_extension_that_only_imports_leaves_the_object_out(tmp_path: Path, order: tuple[str, str]) -> None:
    """The linker drops what is not called, and the types are made by whoever needs them first."""
    pytest.importorskip("numpy")
    include = isthmus.get_include()
    flags = ["-DISTHMUS_COMPILED", "-DIMPORT_ONLY", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"]
    compiled = Path(include, "isthmus", "python", "isthmus_python.cpp")
    extension(tmp_path, "importer", include, *flags, "-Wl,--gc-sections", str(compiled))
    symbols = run("nm", "-C", tmp_path / "importer.so")
    assert "borrow_py" in symbols or "from_py" in symbols
    for left_out in ("tensor_dlpack", "make_types", "export_block", "export_by_consumer", "to_py("):
        assert left_out not in symbols
    run(sys.executable, "-c", USE_IMPORTER.format(first=order[0], second=order[1]), cwd=tmp_path)
