"""Programs outside the repository: with the compiler alone, with pkg-config, and with CMake in both ways."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from compiling import CXX, TOOLCHAIN

import isthmus

REPOSITORY = Path(__file__).resolve().parents[2]
CONSUMER = Path(__file__).resolve().parent / "consumer"

USE_MODULE = """
import numpy as np, consumer
x = np.zeros(3, np.float32)
assert consumer.poke(x) is x
assert x[0] == 42
try:
    consumer.poke("no")
except TypeError as error:
    assert "x" in str(error)
else:
    raise AssertionError("a string was taken for a tensor")
"""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fails(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode != 0, f"{command} was to fail\n{done.stdout}"
    # CMake breaks its messages into lines wherever it likes.
    return " ".join((done.stdout + done.stderr).split())


def flags(which: str) -> list[str]:
    return run(sys.executable, "-m", "isthmus", f"--{which}").split()


def cmake(build: Path, *definitions: str) -> tuple[str | Path, ...]:
    generator = ("-G", "Ninja") if shutil.which("ninja") else ()
    launcher = f"{sys.executable};{TOOLCHAIN.with_name('launch_compiler.py')}"
    quick = ("-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}")
    generator += (f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",)
    return (
        "cmake",
        "-S",
        CONSUMER,
        "-B",
        build,
        *generator,
        *quick,
        f"-DPython_EXECUTABLE={sys.executable}",
        *definitions,
    )


def check_built(build: Path, *targets: str) -> None:
    run("cmake", "--build", build, "--target", *targets)
    assert run(build / "core_program").split() == ["float32", "5"]
    if (build / "consumer.so").exists():
        run(sys.executable, "-c", USE_MODULE, cwd=build)
    if (build / "c_program").exists():
        run(build / "c_program")


def test_compiler_alone_core(tmp_path: Path) -> None:
    program = tmp_path / "program"
    run(CXX, *flags("cflags"), CONSUMER / "core_program.cpp", *flags("ldflags"), "-o", program)
    assert run(program).split() == ["float32", "5"]


def test_compiler_alone_bridge(tmp_path: Path) -> None:
    command = [
        CXX,
        "-shared",
        *flags("cflags"),
        CONSUMER / "module.cpp",
        *flags("ldflags"),
        "-o",
        tmp_path / "consumer.so",
    ]
    run(*command)
    run(sys.executable, "-c", USE_MODULE, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["isthmus", "python"])
def test_header_only(header: str, tmp_path: Path) -> None:
    """One file has the bodies, another one uses them; the core alone needs no Python."""
    (tmp_path / "bodies.cpp").write_text(f"#define ISTHMUS_IMPLEMENTATION\n#include <isthmus/{header}.h>\n")
    source = CONSUMER / ("core_program.cpp" if header == "isthmus" else "module.cpp")
    include = [f"-I{isthmus.get_include()}"] if header == "isthmus" else flags("includes")
    module = [] if header == "isthmus" else ["-shared", "-fPIC"]
    run(CXX, "-std=c++20", *module, *include, tmp_path / "bodies.cpp", source, "-o", tmp_path / "consumer.so", "-ldl")
    if header == "isthmus":
        assert run(tmp_path / "consumer.so").split() == ["float32", "5"]
    else:
        run(sys.executable, "-c", USE_MODULE, cwd=tmp_path)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config on this machine")
def test_pkg_config(tmp_path: Path) -> None:
    folder = Path(isthmus.get_include()).parent / "lib" / "pkgconfig"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    said = run("pkg-config", "--cflags", "--libs", "isthmus", env=environment).split()
    run(CXX, "-std=c++20", CONSUMER / "core_program.cpp", *said, "-o", tmp_path / "program")
    assert run(tmp_path / "program").split() == ["float32", "5"]
    assert run("pkg-config", "--modversion", "isthmus", env=environment).strip() == isthmus.__version__


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config on this machine")
def test_pkg_config_of_the_c_library(tmp_path: Path) -> None:
    """It lies with the library, which is of one architecture."""
    folder = Path(isthmus.get_include()).parent / "lib"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder / "pkgconfig"), "LD_LIBRARY_PATH": str(folder)}
    said = run("pkg-config", "--cflags", "--libs", "isthmus-c", env=environment).split()
    run(CXX, "-x", "c", CONSUMER / "c_program.c", "-x", "none", *said, "-o", tmp_path / "program")
    run(tmp_path / "program", env=environment)


def test_find_package(tmp_path: Path) -> None:
    """The core and the C library; test_install_guide.py builds the module."""
    run(*cmake(tmp_path, f"-Disthmus_DIR={isthmus.get_cmake_dir()}"))
    check_built(tmp_path, "core_program", "c_program")


@pytest.mark.slow
def test_add_subdirectory(tmp_path: Path) -> None:
    dlpack = f"-DISTHMUS_DLPACK_INCLUDE_DIR={isthmus.get_include()}"
    run(*cmake(tmp_path, f"-DISTHMUS_SOURCE={REPOSITORY}", dlpack))
    check_built(tmp_path, "all")
    assert [path.name for path in (tmp_path / "isthmus").glob("libisthmus.so*")] == ["libisthmus.so"]


def test_in_the_wheel_of_another_project(tmp_path: Path) -> None:
    """scikit-build-core builds the project's module, and not Isthmus's own beside it."""
    dlpack = f"-DISTHMUS_DLPACK_INCLUDE_DIR={isthmus.get_include()}"
    run(*cmake(tmp_path, f"-DISTHMUS_SOURCE={REPOSITORY}", dlpack, "-DSKBUILD=ON"))
    targets = run("cmake", "--build", tmp_path, "--target", "help")
    assert "consumer_module" in targets
    assert "isthmus_module" not in targets


def test_an_older_dlpack_is_refused_with_what_was_found(tmp_path: Path) -> None:
    header = tmp_path / "old" / "dlpack" / "dlpack.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define DLPACK_MAJOR_VERSION 1\n#define DLPACK_MINOR_VERSION 0\n")
    dlpack = f"-DISTHMUS_DLPACK_INCLUDE_DIR={header.parent.parent}"
    said = fails(*cmake(tmp_path / "build", f"-DISTHMUS_SOURCE={REPOSITORY}", dlpack))
    assert "1.3 or newer" in said
    assert "version 1.0" in said
    assert "apache-tvm-ffi" in said


def wheel_of_the_header(folder: Path) -> None:
    """A wheel of the name and the place that the real one has the header in, and nothing else."""
    with zipfile.ZipFile(folder / "apache_tvm_ffi-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(Path(isthmus.get_include(), "dlpack", "dlpack.h"), "tvm_ffi/include/dlpack/dlpack.h")
        about = {"METADATA": "Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 1.0\n", "RECORD": ""}
        about["WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        for name, text in about.items():
            wheel.writestr(f"apache_tvm_ffi-1.0.dist-info/{name}", text)


NOWHERE = ("-DCMAKE_DISABLE_FIND_PACKAGE_dlpack=ON", "-Disthmus_dlpack_on_system=")
IN_PREFIX = Path(sys.prefix, "include", "dlpack", "dlpack.h")


@pytest.mark.skipif(
    IN_PREFIX.is_file(), reason="this Python's own include folder has dlpack/dlpack.h; a venv without it has not"
)
def test_a_missing_dlpack_names_the_line_that_fetches_it(tmp_path: Path) -> None:
    (tmp_path / "hide" / "tvm_ffi").mkdir(parents=True)
    (tmp_path / "hide" / "tvm_ffi" / "__init__.py").touch()
    (tmp_path / "wheels").mkdir()
    wheel_of_the_header(tmp_path / "wheels")
    build = tmp_path / "a build"
    configure = cmake(build, f"-DISTHMUS_SOURCE={REPOSITORY}", *NOWHERE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "hide"), "PIP_NO_INDEX": "1"}
    environment["PIP_FIND_LINKS"] = str(tmp_path / "wheels")
    done = subprocess.run([str(part) for part in configure], capture_output=True, text=True, env=environment)
    assert done.returncode
    lines = [line for line in done.stderr.splitlines() if " -m pip install " in line]
    assert len(lines) == 1, done.stderr
    run("bash", "-euc", lines[0], env=environment)
    assert f"{build}/_deps/isthmus-dlpack" in run(*configure, env=environment)


def test_dlpack_in_the_environment_of_python(tmp_path: Path) -> None:
    """Where Conda has headers, and where tools/bootstrap.py puts this one for interpreters that have no wheel of it."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    include = tmp_path / "venv" / "include"
    (include / "dlpack").mkdir(parents=True)
    shutil.copy(Path(isthmus.get_include(), "dlpack", "dlpack.h"), include / "dlpack")
    configure = cmake(tmp_path / "build", f"-DISTHMUS_SOURCE={REPOSITORY}", *NOWHERE)
    last = [f"-DPython_EXECUTABLE={tmp_path / 'venv' / 'bin' / 'python'}"]
    assert f"in {include}\n" in run(*configure, *last)


def test_dlpack_as_a_target_of_the_same_tree(tmp_path: Path) -> None:
    """DLPack's own CMake file writes its folder as a generator expression."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.22)
project(tree LANGUAGES C CXX)
add_library(dlpack INTERFACE)
add_library(dlpack::dlpack ALIAS dlpack)
target_include_directories(dlpack INTERFACE $<BUILD_INTERFACE:{isthmus.get_include()}> $<INSTALL_INTERFACE:include>)
set(CMAKE_DISABLE_FIND_PACKAGE_dlpack ON)
set(isthmus_dlpack_on_system "" CACHE PATH "")
set(ISTHMUS_PYTHON OFF)
set(Python_EXECUTABLE "{shutil.which("false")}")
add_subdirectory("{REPOSITORY}" isthmus)
""")
    said = run("cmake", "-S", tmp_path / "project", "-B", tmp_path / "build")
    assert f"isthmus: dlpack.h 1.3 in {isthmus.get_include()}\n" in said


def test_a_compiler_without_dlpack_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "isthmus").symlink_to(Path(isthmus.get_include(), "isthmus"))
    source = CONSUMER / "core_program.cpp"
    first = fails(CXX, "-std=c++20", "-fsyntax-only", f"-I{tmp_path}", source).split("error:")[1]
    assert "python -m isthmus --includes" in first


def test_a_missing_torch_leaves_the_other_targets(tmp_path: Path) -> None:
    """`torch` is an optional component of the consumer: its absence is said, and the rest configures."""
    hide = tmp_path / "hide"
    (hide / "torch").mkdir(parents=True)
    (hide / "torch" / "__init__.py").write_text("raise ImportError('hidden for the test')")
    environment = {**os.environ, "PYTHONPATH": str(hide)}
    said = run(*cmake(tmp_path / "build", f"-Disthmus_DIR={isthmus.get_cmake_dir()}"), env=environment)
    assert "isthmus::torch is not defined" in said
    assert "hidden for the test" in said


def test_the_core_has_no_python_header() -> None:
    """What the compiler enforces in the build, said by name: no file of the core includes Python.h."""
    core = Path(isthmus.get_include()) / "isthmus" / "core"
    headers = sorted(core.rglob("*.h"))
    assert headers
    assert [h.name for h in headers if "Python.h" in h.read_text()] == []


def test_the_headers_bring_dlpack_along() -> None:
    header = Path(isthmus.get_include()) / "dlpack" / "dlpack.h"
    assert "DLPackExchangeAPI" in header.read_text()
