"""A library that used Isthmus and is closed (dlclose) while Python lives: its code stays, since the interpreter's end
and the objects that it made call it."""

from __future__ import annotations

import sys
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="closes a library as Linux has it")

EXT = Path(__file__).resolve().parent / "ext"
USE = """
import array, ctypes, _ctypes, gc
path = {path!r}
library = ctypes.PyDLL(path)
library.back.restype, library.back.argtypes = ctypes.py_object, [ctypes.py_object]
x = array.array("f", [1, 2, 3])
kept = [library.back(x)] if {keeps} else [library.back(x)] and []
gc.collect()
_ctypes.dlclose(library._handle)
del library
mapped = path in open("/proc/self/maps").read()
if {again}:
    library = ctypes.PyDLL(path)
    library.back.restype, library.back.argtypes = ctypes.py_object, [ctypes.py_object]
    kept.append(library.back(x))
print(mapped, [memoryview(t).tolist() for t in kept])
"""


@pytest.fixture(scope="module")
def library() -> Path:
    # Without GCC's unique symbols, which would keep the library loaded by accident.
    script = compiling.BUILT / "only_back.map"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("{ global: back; local: *; };\n")
    command = [compiling.CXX, *isthmus.get_cflags(), "-O1", "-shared", EXT / "closed.cpp", *isthmus.get_ldflags()]
    return compiling.compiled("closed.so", [*command, f"-Wl,--version-script={script}"]) / "closed.so"


@pytest.mark.parametrize("keeps", [False, True], ids=["nothing kept", "a tensor kept"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "opened again"])
def test_it_stays_until_the_process_ends(child, library: Path, keeps: bool, again: bool) -> None:
    out = child(USE.format(path=str(library), keeps=keeps, again=again))
    assert out == f"True {[[1.0, 2.0, 3.0]] * (keeps + again)}\n"
