"""How large a module of the stable ABI is: of one function, and of sixty beside nanobind's split mode."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "benchmarks"))

import build as recipes  # noqa: E402
import footprint  # noqa: E402
import many_functions  # noqa: E402

sys.path.remove(str(REPOSITORY / "benchmarks"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the sizes are those of ELF"),
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer"),
]

BLOCKS = re.findall(r"(?ms)^```cpp\n(.*?)^```$", (REPOSITORY / "README.md").read_text())
(README,) = (block for block in BLOCKS if "ISTHMUS_MODULE" in block)
SPLIT = footprint.SOURCES["isthmus with nanobind, stable ABI"][0]
LIMIT = 25_000  # bytes of a module of one function


def module(folder: Path, source: str, flags: list[str], level: str) -> Path:
    """The stripped module, linked as isthmus::abi3 and nanobind's CMake functions do."""
    (folder / "module.cpp").write_text(source)
    sections = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    told = ["-fPIC", "-fvisibility=hidden", recipes.python_include(), *sections, "-shared", "-s", level, *flags]
    command = [compiling.CXX, *told, "module.cpp", "-o", "module.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "module.so"


def flags_of(recipe: str) -> list[str]:
    try:
        return [*getattr(recipes, recipe)().flags, *(f"-I{folder}" for folder in isthmus.get_includes())]
    except recipes.Unavailable as why:
        pytest.skip(str(why))


def loaded(path: Path) -> int:
    """The bytes of what is loaded, without the gaps between pages."""
    shown = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    sections = re.findall(r"\] (\.\S+) +(\w+) +\w+ \w+ (\w+) \w+ +([A-Z]+)", shown)
    assert {".text", ".rodata", ".data"} <= {name for name, *_ in sections}
    return sum(int(size, 16) for _, kind, size, flags in sections if "A" in flags and kind != "NOBITS")


@pytest.mark.parametrize("level", footprint.SIZES)
def test_the_module_of_the_readme(level: str, tmp_path: Path) -> None:
    assert module(tmp_path, README, flags_of("abi3_recipe"), level).stat().st_size <= LIMIT


@pytest.mark.parametrize("level", footprint.SIZES)
def test_one_function_with_nanobind(level: str, tmp_path: Path) -> None:
    flags = flags_of("abi3_with_nanobind_recipe")
    assert module(tmp_path, SPLIT, flags, level).stat().st_size <= LIMIT


@pytest.mark.parametrize("level", footprint.SIZES)
def test_sixty_functions_beside_nanobind(level: str, tmp_path: Path) -> None:
    """At most the size of nanobind's own arrays."""
    functions, sizes = many_functions.functions(), []
    for name, dialect, recipe in (
        ("ours", many_functions.Isthmus(), "abi3_with_nanobind_recipe"),
        ("theirs", many_functions.Nanobind(), "nanobind_split_recipe"),
    ):
        (tmp_path / name).mkdir()
        sizes.append(loaded(module(tmp_path / name, dialect.module(functions), flags_of(recipe), level)))
    ours, theirs = sizes
    assert ours <= theirs
