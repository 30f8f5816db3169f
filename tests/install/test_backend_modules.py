"""Modules over the backend's table by each binder, with the limited API and without: what they do with the package, and
what their import says without it."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import test_floors as floors  # noqa: E402

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

FUNCTION = "static float first(isthmus::View<const float, 1> x) { return x(0); }\n"
NANOBIND = "#include <isthmus/nanobind.h>\n" + FUNCTION + 'NB_MODULE(bound, m) { m.def("first", first); }\n'
PYBIND11 = FUNCTION + 'PYBIND11_MODULE(bound, m) { m.def("first", first); }\n'
OURS, THEIRS = "#include <isthmus/pybind11.h>\n", "#include <pybind11/pybind11.h>\n"
BARE = """#include <isthmus/module.h>
static float first(isthmus::View<const float, 1> x) { return x(0); }
ISTHMUS_MODULE(bound, m) { isthmus::def<first>(m, "first", {"x"}); }
"""
#: As the module's own build says it; with nanobind's split mode also what its CMake function defines.
SPLIT = ["-DNB_BACKEND_MODULE=nanobind_backend", "-DNB_BACKEND_PYPI=nanobind-backend", "-DPy_LIMITED_API=0x030A0000"]
USE = """
import numpy as np
assert bound.first(np.array([2, 3], np.float32)) == 2
try:
    bound.first(3)
except TypeError:
    pass
else:
    raise AssertionError("an int was taken")
"""


def of_nanobind(folder: Path) -> list[str]:
    """The flags of a module that links nanobind itself, of the package in this folder."""
    root = folder / "nanobind"
    if not root.is_dir():
        pytest.skip(f"{root} is not installed: `make test` installs it where this Python has it")
    return compiling.nanobind_flags(root)


def of_pybind11(folder: Path) -> list[str]:
    if not (folder / "pybind11").is_dir():
        pytest.skip(f"{folder / 'pybind11'} is not installed: `make test` installs it where this Python has it")
    return [f"-isystem{folder / 'pybind11' / 'include'}"]


def installed(name: str) -> Path:
    found = compiling.package_folder(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found.parent


def split_flags() -> list[str]:
    folder = installed("nanobind")
    installed("nanobind_backend")
    return [f"-isystem{folder / 'nanobind' / 'include'}", *SPLIT]


OLDEST_NANOBIND = floors.folder(Path(sys.prefix), "nanobind")
OLDEST_PYBIND11 = floors.folder(Path(sys.prefix), "pybind11")
#: Name: source, whether it is of the stable ABI, its binder's flags.
KINDS = {
    "bare": (BARE, True, list),
    "nanobind, split": (NANOBIND, True, split_flags),
    "nanobind": (NANOBIND, False, lambda: of_nanobind(installed("nanobind"))),
    "the oldest nanobind": (NANOBIND, False, lambda: of_nanobind(OLDEST_NANOBIND)),
    "pybind11": (OURS + PYBIND11, False, lambda: of_pybind11(installed("pybind11"))),
    "pybind11's header first": (THEIRS + OURS + PYBIND11, False, lambda: of_pybind11(installed("pybind11"))),
    "the oldest pybind11": (OURS + PYBIND11, False, lambda: of_pybind11(OLDEST_PYBIND11)),
    "the oldest pybind11's header first": (THEIRS + OURS + PYBIND11, False, lambda: of_pybind11(OLDEST_PYBIND11)),
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module `bound` of this kind lies."""
    source, limited, flags_of = KINDS[request.param]
    flags = flags_of()
    folder = tmp_path_factory.mktemp("bound")
    (folder / "bound.cpp").write_text(source)
    told = isthmus.get_cflags(abi3=limited, backend=True)
    suffix = ".abi3.so" if limited else importlib.machinery.EXTENSION_SUFFIXES[0]
    command = [compiling.CXX, "-O0", *told, *flags, f"-I{sysconfig.get_path('include')}", "-shared", "-Wl,-z,now"]
    objects = [flag for flag in flags if flag.endswith(".o")]
    command = [*(part for part in command if part not in objects), "bound.cpp", *objects, "-o", f"bound{suffix}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def python(folder: Path, source: str) -> None:
    done = subprocess.run([sys.executable, "-c", source], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_it_calls_the_package(folder: Path) -> None:
    pytest.importorskip("numpy")
    python(folder, "import bound\n" + USE)


WITHOUT = """
import importlib.util, sys
if importlib.util.find_spec("nanobind_backend"):
    import nanobind_backend  # as by another module in the process
sys.modules["isthmus"] = None
for turn in range(2):  # the shared object stays loaded
    try:
        import bound
    except ImportError as error:
        assert "pip install 'isthmus>=" in str(error), error
        assert isinstance(error.__cause__, ImportError)
    else:
        raise AssertionError
del sys.modules["isthmus"]
import bound
"""


def test_without_the_package_the_import_says_what_to_install(folder: Path) -> None:
    """Each time, and when the package is there at last the module is imported."""
    pytest.importorskip("numpy")
    python(folder, WITHOUT + USE)


def syntax(source: str, *flags: str) -> list[str]:
    """The lines of the compiler's errors; none for what compiles."""
    includes = [f"-I{folder}" for folder in isthmus.get_includes()]
    command = [compiling.CXX, "-std=c++20", "-fsyntax-only", *includes, *flags, "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=300, check=False)
    return [line for line in done.stderr.splitlines() if "error:" in line]


#: Headers that need more than a compiler and Python: the libraries of tests/adapters, and those that are refused.
MORE = {"eigen.h", "eigen_tensor.h", "mdspan.h", "opencv.h", "xtensor.h", "torch.h"}
HEADERS = Path(isthmus.get_include()) / "isthmus"
PUBLIC = [path.name for path in sorted(HEADERS.glob("*.h")) if path.name not in MORE]


@pytest.mark.slow
@pytest.mark.parametrize("header", [*PUBLIC, "core/live.h", "python/arguments.h", "python/containers.h"])
def test_a_header_comes_first(header: str) -> None:
    """It compiles alone over the table, with the limited API if its binder has one."""
    flags = []
    if header.startswith(("nanobind", "pybind11")):
        binder = header.split(".")[0].split("_")[0]
        flags = [f"-isystem{installed(binder) / binder / 'include'}", *(SPLIT if binder == "nanobind" else [])]
    limited = [] if header.startswith("pybind11") else ["-DISTHMUS_ABI3"]
    assert syntax(f"#include <isthmus/{header}>\n", "-DISTHMUS_BACKEND", *limited, *flags) == []


@pytest.mark.parametrize(
    ("header", "flags", "said"),
    [
        ("pybind11.h", ["-DISTHMUS_ABI3"], "pybind11 has no limited API: compile with isthmus::backend"),
        ("nanobind.h", ["-DISTHMUS_ABI3"], "nanobind has the limited API of CPython 3.10 in split mode alone"),
    ],
)
def test_what_the_table_cannot_do_is_told_by_the_compiler(header: str, flags: list[str], said: str) -> None:
    (error,) = syntax(f"#include <isthmus/{header}>\n", "-DISTHMUS_BACKEND", *flags)
    assert said in error
