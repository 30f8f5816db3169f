"""Where the headers and the CMake package are, for the build of an extension."""

from __future__ import annotations

import importlib.util
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
        raise FileNotFoundError("isthmus: the headers were not installed with the package; reinstall it (pip install .)")
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


def get_cmake_dir() -> str:
    """The folder for CMake's ``isthmus_DIR``, so that ``find_package(isthmus)`` is found.

    Raises FileNotFoundError when the package is used from a source tree without being installed.
    """
    for root in _installed():
        found = _find(root / "lib" / "cmake" / "isthmus", root / "lib64" / "cmake" / "isthmus", holds="isthmusConfig.cmake")
        if found is not None:
            return found
    raise FileNotFoundError("isthmus: the CMake package was not installed with the package; reinstall it (pip install .)")
