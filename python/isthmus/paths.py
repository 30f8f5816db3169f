"""Where the headers, the compiled library and the CMake package are, for the build of an extension."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from . import _isthmus


def _installed() -> Iterator[Path]:
    """Folders beside which the wheel puts its files.

    An editable install keeps the compiled module, and all that CMake installed with it, away from the Python files.
    """
    for file in (_isthmus.__file__, __file__):
        yield Path(file).resolve().parent


def _find(*candidates: Path, holds: str) -> str | None:
    return next((str(folder) for folder in candidates if (folder / holds).exists()), None)


def get_include() -> str:
    """The folder for the compiler's -I, so that ``#include <isthmus/python.h>`` is found.

    An installed package has ``<dlpack/dlpack.h>`` in the same folder; see `get_includes` for all that an extension
    needs. Raises FileNotFoundError when the headers are missing.
    """
    # Last, the source tree that these files may be used from.
    source = Path(__file__).resolve().parents[2] / "include"
    found = _find(*(root / "include" for root in _installed()), source, holds="isthmus/isthmus.h")
    if found is None:
        raise FileNotFoundError(
            "isthmus: the headers were not installed with the package; reinstall it (pip install .)"
        )
    return found


def get_includes() -> list[str]:
    """Every folder that an extension needs with -I: Isthmus's headers, DLPack's, and this Python's own."""
    folders = [get_include()]
    tvm_ffi = importlib.util.find_spec("tvm_ffi")
    homes = [Path(home) / "include" for home in (tvm_ffi.submodule_search_locations or ())] if tvm_ffi else []
    dlpack = _find(Path(folders[0]), *homes, holds="dlpack/dlpack.h")
    folders += [dlpack] if dlpack else []
    folders += [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
    return list(dict.fromkeys(folders))


def get_library() -> str:
    """The compiled library of this Python: one object file to link, of which the linker takes what is called.

    Raises FileNotFoundError when the package is used from a source tree without being installed.
    """
    for root in _installed():
        if (root / "lib" / "isthmus.o").exists():
            return str(root / "lib" / "isthmus.o")
    raise FileNotFoundError(
        "isthmus: the compiled library was not installed with the package; reinstall it (pip install .), or define "
        "ISTHMUS_IMPLEMENTATION in one .cpp and compile with --includes alone"
    )


def get_cflags(*, abi3: bool = False) -> list[str]:
    """What a compiler is told of an extension that links `get_library`; a newer -std may follow.

    With ``abi3`` it is one of the stable ABI: the file, named ``.abi3.so``, loads into CPython 3.10 and newer, links
    nothing, and needs the package isthmus when it is imported.
    """
    release = f"-DISTHMUS_PREBUILT={_isthmus.__cxx_library_release__}"
    mode = ["-DISTHMUS_BACKEND", "-DISTHMUS_ABI3"] if abi3 else [release]
    return ["-std=c++20", "-fPIC", "-fvisibility=hidden", *mode, *(f"-I{folder}" for folder in get_includes())]


def get_ldflags() -> list[str]:
    """What the linker of an extension is told: `get_library`, and to leave out what is not called.

    Raises FileNotFoundError as `get_library` does.
    """
    if sys.platform == "darwin":
        return [get_library(), "-Wl,-dead_strip", "-undefined", "dynamic_lookup"]
    return [get_library(), "-Wl,--gc-sections", *(["-ldl"] if sys.platform == "linux" else [])]


def packed_relocations() -> list[str]:
    """The linker's option for smaller modules, if it has it. They load with glibc 2.36 and newer,
    so this one's must be."""
    name, version = platform.libc_ver()
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or name != "glibc" or tuple(map(int, version.split(".")[:2])) < (2, 36):
        return []
    done = subprocess.run([compiler, "-Wl,--help"], capture_output=True, text=True, check=False)
    return ["-Wl,-z,pack-relative-relocs"] if "pack-relative-relocs" in done.stdout else []


def get_cmake_dir() -> str:
    """The folder for CMake's ``isthmus_DIR``, so that ``find_package(isthmus)`` is found.

    Raises FileNotFoundError when the package is used from a source tree without being installed.
    """
    for root in _installed():
        found = _find(
            root / "lib" / "cmake" / "isthmus", root / "lib64" / "cmake" / "isthmus", holds="isthmusConfig.cmake"
        )
        if found is not None:
            return found
    raise FileNotFoundError(
        "isthmus: the CMake package was not installed with the package; reinstall it (pip install .)"
    )
