"""Extensions of different projects in one process: of one version, of two, and one that only imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import compiling
import pytest

import isthmus

PAIR = Path(__file__).resolve().parent / "builds" / "pair.cpp"

USE_PAIR = """
import gc, sys
from one import pair as one
from other import pair as other
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
del one, sys.modules["one.pair"], sys.modules["one"].pair
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
    headers = "".join(path.read_text() for path in include.rglob("*.h"))
    tag = int(re.search(r"#define ISTHMUS_ABI (\d+)", headers)[1])  # type: ignore[index]
    for path in include.rglob("*.[ch]*"):
        old = path.read_text()
        new = old.replace(f"abi{tag}", f"abi{tag + 1}").replace(f"ISTHMUS_ABI {tag}\n", f"ISTHMUS_ABI {tag + 1}\n")
        new = new.replace(f"ISTHMUS_ABI == {tag}", f"ISTHMUS_ABI == {tag + 1}")
        if new != old:
            path.write_text(new)
    return include


def extension(include: str | Path, *flags: str, module: str = "pair") -> Path:
    """The folder of the extension as a project compiles it, with the library of these headers."""
    folders = [f"-I{include}", f"-I{sysconfig.get_path('include')}"]
    command = [compiling.CXX, "-std=c++20", "-fPIC", *flags, *folders, "-c"]
    link: list[str | Path] = [compiling.compiled("part.o", [*command, f"-DMODULE={module}", PAIR]) / "part.o"]
    if include == isthmus.get_include():
        link += isthmus.get_ldflags()
    else:
        units = [Path(include, "isthmus", "src", f"{name}.cpp") for name in ("core", "shared", "load", "bridge")]
        link += [compiling.compiled("part.o", [*command, unit]) / "part.o" for unit in units]
    return compiling.compiled(f"{module}.so", [compiling.CXX, "-shared", *link])


def in_package(folder: Path, name: str, built: Path) -> None:
    """The extension as that of a project of this name: a shared object of its own."""
    (folder / name).mkdir()
    shutil.copy(built / "pair.so", folder / name)


@pytest.mark.parametrize("visibility", ["hidden", "default"])
def test_two_projects_of_one_version_share_their_objects(tmp_path: Path, visibility: str) -> None:
    built = extension(isthmus.get_include(), f"-fvisibility={visibility}")
    for name in ("one", "other"):
        in_package(tmp_path, name, built)
    run(sys.executable, "-c", USE_PAIR.format(same=True), cwd=tmp_path)


@pytest.mark.slow
def test_two_projects_of_different_versions_meet_through_dlpack(tmp_path: Path) -> None:
    in_package(tmp_path, "one", extension(isthmus.get_include(), "-fvisibility=default"))
    in_package(tmp_path, "other", extension(headers_of_another_version(tmp_path), "-fvisibility=default"))
    run(sys.executable, "-c", USE_PAIR.format(same=False), cwd=tmp_path)


@pytest.mark.parametrize("order", [("import importer", "import isthmus"), ("import isthmus", "import importer")])
def test_an_extension_that_only_imports_leaves_the_object_out(order: tuple[str, str]) -> None:
    """The linker drops what is not called, and the types are made by whoever needs them first."""
    pytest.importorskip("numpy")
    built = extension(isthmus.get_include(), "-DIMPORT_ONLY", "-fvisibility=hidden", module="importer")
    symbols = run("nm", "-C", built / "importer.so")
    assert "borrow_py" in symbols or "from_py" in symbols
    for left_out in ("tensor_dlpack", "make_types", "export_block", "export_by_consumer", "to_py("):
        assert left_out not in symbols
    run(sys.executable, "-c", USE_IMPORTER.format(first=order[0], second=order[1]), cwd=built)
