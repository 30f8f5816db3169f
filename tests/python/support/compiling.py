"""What tests compile by a command of their own: once for all tests, and kept for the next run."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"
#: Clang, if there is one.
CLANG = next(
    (path for name in ("clang++", "clang++-19", "clang++-16", "clang++-14") if (path := shutil.which(name))), None
)
BUILT = Path(__file__).resolve().parents[3] / "build" / "compiled"
#: What a build of CMake's takes in before the project: nothing is compiled twice, or described for a debugger.
TOOLCHAIN = Path(__file__).resolve().parent / "quick.cmake"


def package_folder(name: str) -> Path | None:
    """Where a package is installed, if it is, without importing it: PyTorch's import takes two seconds."""
    found = importlib.util.find_spec(name)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


@functools.cache
def version_of(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout


def library_sources(include: str | Path) -> list[Path]:
    """The units of the library that these headers declare, without torch's: of a source tree, or as installed."""
    folders = [Path(include) / "isthmus" / "src", Path(include).parent / "src"]
    return sorted(unit for folder in folders for unit in folder.glob("*.cpp") if unit.name != "torch.cpp")


def contents(part: str, folders: Sequence[Path]) -> bytes:
    """What a part of a command stands for: files by what is in them, as a copy of include/ may be anywhere."""
    path = Path(part.removeprefix("-I"))
    if path.is_file():
        return path.read_bytes()
    below = path if path in folders else path / "isthmus"
    if not below.is_dir():
        return part.encode()
    return b"\0".join(
        f"{file.relative_to(path)}\0".encode() + file.read_bytes() for file in sorted(below.rglob("*.[ch]*"))
    )


@contextlib.contextmanager
def locked_folder(state: str) -> Iterator[Path]:
    """The folder of what is made of this state, while no other process makes it."""
    folder = BUILT / state
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def compiled(name: str, command: Sequence[str | Path], *folders: Path) -> Path:
    """The folder with the file `name` that the command makes there: made once for the same compiler, command and
    sources (files in the command, Isthmus's headers, and all in these folders), by whichever process of the test run
    asks first, and found again by the next run."""
    digest = hashlib.sha256(version_of(str(command[0])) + sys.version.encode())
    for part in [*folders, *command]:
        digest.update(hashlib.sha256(contents(str(part), folders)).digest())
    with locked_folder(digest.hexdigest()[:24]) as folder:
        if not (folder / name).exists():
            done = subprocess.run([*map(str, command), "-o", folder / f"part-{name}"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            (folder / f"part-{name}").rename(folder / name)
    return folder


def library_objects(command: Sequence[str | Path], include: str | Path, *leave_out: str) -> list[Path]:
    """The library's units as this command, without a file, compiles them; but for the units of these names."""
    units = [unit for unit in library_sources(include) if unit.stem not in leave_out]
    return [compiled("part.o", [*command, "-c", unit], unit.parent) / "part.o" for unit in units]


def nanobind_flags(folder: Path) -> list[str]:
    """The folders of headers of this nanobind, and its library as an object: for a module that links it."""
    includes = [f"-isystem{path}" for path in (folder / "include", folder / "ext" / "robin_map" / "include")]
    told = [*includes, f"-I{sysconfig.get_path('include')}", *free_threaded_flags()]
    source = folder / "src" / "nb_combined.cpp"
    command = [CXX, "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", *told, "-c", source]
    return [*includes, *free_threaded_flags(), str(compiled("part.o", command, folder / "src") / "part.o")]


def free_threaded_flags() -> list[str]:
    return ["-DNB_FREE_THREADED"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []


def audit(module: Path) -> None:
    """Asserts that a module of the stable ABI uses no more than CPython 3.10's."""
    pytest.importorskip("abi3audit", reason="abi3audit is not installed: pip install abi3audit")
    command = [sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.10", module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
