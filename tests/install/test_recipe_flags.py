"""The flags of every recipe that a reader copies, the build type left unsaid: each is optimised, and checks no
bounds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import readmes

from isthmus import new

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [*sorted((REPOSITORY / "docs").glob("*.md")), REPOSITORY / "README.md"]
TEXTS = {str(path.relative_to(REPOSITORY)): path.read_text() for path in PAGES}
EXAMPLES = sorted((REPOSITORY / "examples").glob("*/CMakeLists.txt"))
#: Name: the text of a whole CMakeLists.txt or meson.build. One of a docs page is a project by itself.
CMAKE = {path.parent.name: path.read_text() for path in EXAMPLES}
MESON = {path.parent.name: path.read_text() for path in sorted((REPOSITORY / "examples").glob("*/meson.build"))}
for page, text in TEXTS.items():
    for language, recipes in (("cmake", CMAKE), ("meson", MESON)):
        blocks = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)
        recipes.update({f"{page} {i}": block for i, block in enumerate(blocks) if "project(" in block})
for kind in new.KINDS:
    CMAKE[f"new, {kind}"] = new.files_of("mine", kind, "scikit-build-core")["CMakeLists.txt"]
    MESON[f"new, {kind}"] = new.files_of("mine", kind, "meson")["meson.build"]
#: What CMake says of a library that a recipe needs and this machine has not.
MISSING = re.compile(
    r"Could NOT find (\w+)|by\s+\"(\w+)\"|Could not find (nanoflann_dir)|(isthmus::torch) is not defined"
)
#: What a recipe has of the packages that say where their CMake files are.
PACKAGES = {"nanobind": "nanobind.cmake_dir()", "pybind11": "pybind11.get_cmake_dir()"}


def commands(folder: Path) -> list[str]:
    """How the recipe's own files are compiled; those of libraries lie elsewhere."""
    entries = json.loads((folder / "build" / "compile_commands.json").read_text())
    files = {Path(entry["directory"], entry["file"]).resolve(): entry["command"] for entry in entries}
    return [command for file, command in files.items() if file.parent == folder.resolve()]


def is_optimised(command: str) -> bool:
    levels = re.findall(r" -O(\w+)", command)
    return bool(levels) and levels[-1] in {"2", "3", "s"} and " -DNDEBUG" in command


def prepare(folder: Path, text: str, name: str) -> None:
    """The recipe with empty sources of the names that it has."""
    (folder / name).write_text(text)
    for source in re.findall(r"[\w/]+\.cpp", text):
        (folder / source).parent.mkdir(parents=True, exist_ok=True)
        (folder / source).touch()


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if name not in ("CMAKE_BUILD_TYPE", "CXXFLAGS")}
    environment = {**settings, "PATH": readmes.PATH}
    return subprocess.run([*command], capture_output=True, text=True, timeout=300, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize("name", CMAKE)
def test_cmake(name: str, tmp_path: Path) -> None:
    prepare(tmp_path, CMAKE[name], "CMakeLists.txt")
    places = [f"-DPython_EXECUTABLE={sys.executable}", f"-Disthmus_DIR={isthmus.get_cmake_dir()}"]
    for package, folder in PACKAGES.items():
        if package in CMAKE[name]:
            module = pytest.importorskip(package)
            places.append(f"-D{package}_DIR={eval(folder, {package: module})}")
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", *places, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    if done.returncode != 0 and (missing := MISSING.search(done.stderr + done.stdout)):
        pytest.skip(f"{next(filter(None, missing.groups()))} is not installed")
    assert done.returncode == 0, done.stderr
    told = commands(tmp_path)
    assert told
    assert [command for command in told if not is_optimised(command)] == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mesonbuild") is None, reason="meson is not installed")
@pytest.mark.skipif(shutil.which("ninja", path=readmes.PATH) is None, reason="ninja is not installed")
@pytest.mark.parametrize("name", MESON)
def test_meson(name: str, tmp_path: Path) -> None:
    prepare(tmp_path, MESON[name], "meson.build")
    done = run(sys.executable, "-m", "mesonbuild.mesonmain", "setup", tmp_path / "build", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = commands(tmp_path)
    assert told
    assert [command for command in told if not is_optimised(command)] == []


def test_the_compiler_alone() -> None:
    """Every command of a page or an example that compiles something."""
    texts = {**TEXTS, **{str(path): path.read_text() for path in (REPOSITORY / "examples").glob("*/*.md")}}
    shells = [block for text in texts.values() for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", text)]
    compiled = [line for block in shells for line in block.splitlines() if re.match(r"(g\+\+|clang\+\+|c\+\+) ", line)]
    assert len(compiled) >= 4
    assert [line for line in compiled if " -O2 " not in line] == []
