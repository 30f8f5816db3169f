"""The libraries of the CMake package in projects of several shapes: made once, with the user's flags, exported;
the old name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import TOOLCHAIN

isthmus = pytest.importorskip("isthmus")

pytestmark = [
    pytest.mark.skipif(
        not shutil.which("cmake") or not shutil.which("ninja"), reason="cmake or ninja is not installed"
    ),
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer"),
]

MODULE = (Path(__file__).resolve().parent / "consumer" / "module.cpp").read_text()
USE = """
import numpy as np, consumer
x = np.zeros(3, np.float32)
assert consumer.poke(x) is x and x[0] == 42
"""
LAUNCHER = f"{sys.executable};{TOOLCHAIN.with_name('launch_compiler.py')}"


def cmake(*arguments: str | Path) -> str:
    done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def project(folder: Path, *directories: str, **files: str) -> Path:
    """A project with a CMakeLists.txt for each directory, and the module's source in all of them."""
    top = "cmake_minimum_required(VERSION 3.22)\nproject(shapes LANGUAGES CXX)\n" + files.pop("top", "")
    for number, text in enumerate(directories):
        (folder / f"part{number}").mkdir(parents=True)
        (folder / f"part{number}" / "CMakeLists.txt").write_text(text)
        (folder / f"part{number}" / "module.cpp").write_text(MODULE)
        top += f"add_subdirectory(part{number})\n"
    (folder / "CMakeLists.txt").write_text(top)
    return folder


def configure(source: Path, *definitions: str, generator: str = "Ninja", build_type: str = "Debug") -> str:
    package = (f"-DPython_EXECUTABLE={sys.executable}", f"-Disthmus_DIR={isthmus.get_cmake_dir()}")
    quick = (f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={LAUNCHER}")
    settings = (
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCMAKE_BUILD_TYPE={build_type}",
        *quick,
        *package,
        *definitions,
    )
    return cmake("-S", source, "-B", source / "build", "-G", generator, *settings)


def commands(source: Path) -> dict[str, list[str]]:
    """The flags of each file that the project compiles, by its name; the same file may be compiled for several
    targets."""
    found: dict[str, list[str]] = {}
    for entry in json.loads((source / "build" / "compile_commands.json").read_text()):
        found.setdefault(Path(entry["file"]).name, []).append(entry["command"])
    return found


PART = """
find_package(isthmus 0.1 CONFIG REQUIRED COMPONENTS python)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
Python_add_library(part{number} MODULE module.cpp)
set_target_properties(part{number} PROPERTIES OUTPUT_NAME consumer)
target_link_libraries(part{number} PRIVATE {library})
"""


@pytest.mark.slow
def test_two_directories_share_one_library(tmp_path: Path) -> None:
    """It is compiled once, with the flags of the directory in which it was found first, and both modules work."""
    parts = [PART.format(number=number, library="isthmus::python") for number in range(2)]
    core = "find_package(isthmus CONFIG REQUIRED)\nadd_library(user STATIC EXCLUDE_FROM_ALL module.cpp)\n"
    core += "target_link_libraries(user isthmus::core)\n"
    source = project(tmp_path, core, *parts, top="add_compile_options(-DOURS)\n")
    configure(source)
    compiled = commands(source)
    assert len(compiled["bridge.cpp"]) == len(compiled["core.cpp"]) == 1
    for unit in ("bridge.cpp", "core.cpp"):
        assert re.search(r" -DOURS .* -O2 .* -w ", compiled[unit][0]), compiled[unit]
        assert "-fvisibility=hidden" in compiled[unit][0]
    cmake("--build", source / "build")
    for number in (1, 2):
        subprocess.run([sys.executable, "-c", USE], cwd=source / "build" / f"part{number}", check=True)


def test_a_library_of_the_user_that_links_it_can_be_exported(tmp_path: Path) -> None:
    """By the name that find_package(isthmus) gives whoever uses the export."""
    text = """
find_package(isthmus CONFIG REQUIRED)
add_library(user STATIC module.cpp)
target_link_libraries(user PUBLIC isthmus::core)
install(TARGETS user EXPORT user)
install(EXPORT user DESTINATION cmake)
"""
    source = project(tmp_path, text)
    configure(source)
    (exported,) = (source / "build").rglob("user.cmake")
    assert 'INTERFACE_LINK_LIBRARIES "isthmus::core"' in exported.read_text()


def test_a_generator_of_several_build_types(tmp_path: Path) -> None:
    """No build type is asked for there, and the library is optimised in each."""
    source = project(tmp_path, PART.format(number=0, library="isthmus::python"))
    assert "CMAKE_BUILD_TYPE is set" not in configure(source, generator="Ninja Multi-Config", build_type="")
    assert all(" -O2 " in command for command in commands(source)["bridge.cpp"])


def test_without_a_build_type_one_line_says_that_the_code_is_not_optimised(tmp_path: Path) -> None:
    source = project(tmp_path, *(PART.format(number=number, library="isthmus::python") for number in range(2)))
    said = configure(source, build_type="")
    assert said.count("no CMAKE_BUILD_TYPE is set: Isthmus is optimised and shapes is not") == 1
    assert "CMAKE_BUILD_TYPE is set" not in configure(source, build_type="Release")


@pytest.mark.slow
def test_the_old_name_says_what_to_write(tmp_path: Path) -> None:
    source = project(tmp_path, PART.format(number=0, library="isthmus::python_compiled"))
    configure(source)
    done = subprocess.run(["cmake", "--build", source / "build"], capture_output=True, text=True)
    assert done.returncode
    first = next(line for line in done.stdout.splitlines() if "error:" in line)
    assert "link isthmus::python" in first


def test_precompiled_headers(tmp_path: Path) -> None:
    source = project(tmp_path, PART.format(number=0, library="isthmus::python"))
    configure(source, "-DISTHMUS_PRECOMPILED_HEADERS=ON")
    (header,) = (source / "build" / "part0").rglob("cmake_pch.hxx")
    assert "<isthmus/python.h>" in header.read_text()
    assert "cmake_pch.hxx" not in commands(source)["bridge.cpp"][0]


@pytest.mark.slow
def test_header_only(tmp_path: Path) -> None:
    """Nothing of Isthmus is compiled apart, and the linker leaves out what the module does not call."""
    source = project(tmp_path, PART.format(number=0, library="isthmus::header_only"))
    module = source / "part0" / "module.cpp"
    module.write_text("#define ISTHMUS_IMPLEMENTATION\n" + MODULE)
    configure(source)
    cmake("--build", source / "build")
    assert not list(source.rglob("libisthmus*"))
    subprocess.run([sys.executable, "-c", USE], cwd=source / "build" / "part0", check=True)
    symbols = subprocess.run(
        ["nm", "-C", *source.rglob("consumer.so")], capture_output=True, text=True, check=True
    ).stdout
    assert "OperatorDefinition" not in symbols
