"""The oldest versions that we claim: NumPy's is run on the extension that is there,
and every place names the same numbers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import test_floors as floors  # noqa: E402


def test_the_oldest_numpy() -> None:
    ext = pytest.importorskip("isthmus_test_ext")
    folder = floors.folder(Path(sys.prefix), "numpy")
    if not folder.is_dir():
        pytest.skip(
            "the oldest NumPy is not installed beside the newest; `make test` installs it where this Python has it"
        )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    python = [sys.executable, "-X", "faulthandler"]
    asked = subprocess.run(
        [*python, "-c", "import numpy; print(numpy.__version__)"], capture_output=True, env=environment
    )
    assert asked.stdout.decode().startswith(floors.floor("numpy") + ".")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", f"pythonpath={Path(ext.__file__).parent}"]
    command = [*python, "-m", "pytest", *options, *floors.NUMPY_TESTS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 500


@pytest.mark.parametrize(
    ("file", "said", "library"),
    [
        ("include/isthmus/nanobind.h", r"needs nanobind ([\d.]+) or newer", "nanobind"),
        ("include/isthmus/pybind11.h", r"needs pybind11 ([\d.]+) or newer", "pybind11"),
        ("include/isthmus/torch/api.h", r"needs PyTorch ([\d.]+) or newer", "torch"),
        ("docs/casters.md", r"\(pybind11 ([\d.]+) and newer\)", "pybind11"),
        ("docs/install.md", r'"nanobind>=([\d.]+)"', "nanobind"),
        ("docs/install.md", r"(?m)^\| NumPy \| ([\d.]+) \|", "numpy"),
        ("docs/install.md", r"(?m)^\| nanobind \| ([\d.]+) \|", "nanobind"),
        ("docs/install.md", r"(?m)^\| pybind11 \| ([\d.]+) \|", "pybind11"),
        ("docs/install.md", r"(?m)^\| PyTorch \| ([\d.]+) \|", "torch"),
        ("docs/torch.md", r"PyTorch ([\d.]+)\. Older ones", "torch"),
        ("requirements/old-torch.txt", r"(?m)^torch==([\d.]+)\.\d+$", "torch"),
        ("requirements/demo.txt", r"(?m)^torch>=([\d.]+)$", "torch"),
        ("requirements/demo-lite.txt", r"(?m)^numpy>=([\d.]+)$", "numpy"),
        ("requirements/bridge-aarch64.txt", r"(?m)^numpy>=([\d.]+)$", "numpy"),
        ("requirements/platforms.txt", r"(?m)^nanobind>=([\d.]+)$", "nanobind"),
        ("requirements/platforms.txt", r"(?m)^pybind11>=([\d.]+)$", "pybind11"),
        ("requirements/lint.txt", r"(?m)^numpy>=([\d.]+)$", "numpy"),
    ],
)
def test_every_place_names_the_same_floor(file: str, said: str, library: str) -> None:
    found = re.findall(said, (REPOSITORY / file).read_text())
    assert found, f"{file} does not say which {library} is the oldest"
    assert set(found) == {floors.floor(library)}


PAIR = """
#include <isthmus/nanobind.h>
float first(std::pair<isthmus::View<const float, 1>, int> x) { return x.first(0); }
NB_MODULE(pair, m) { m.def("first", first); }
"""


@pytest.mark.parametrize("header", ["isthmus/nanobind.h", "isthmus/nanobind_stl.h"])
def test_a_pair_of_views_with_the_oldest_nanobind(header: str, tmp_path: Path) -> None:
    """Its own pair lets go of an element before the call: ours is in the header of containers,
    which the error names."""
    isthmus = pytest.importorskip("isthmus")
    folder = floors.folder(Path(sys.prefix), "nanobind")
    compiler = shutil.which("c++")
    if not folder.is_dir() or compiler is None:
        pytest.skip("wants a C++ compiler and the oldest nanobind, which `make test` installs")
    source = tmp_path / "pair.cpp"
    source.write_text(f"#include <{header}>\n{PAIR}")
    includes = [
        isthmus.get_include(),
        *isthmus.get_includes(),
        folder / "nanobind" / "include",
        sysconfig.get_path("include"),
    ]
    command = [compiler, "-std=c++20", "-fsyntax-only", *(f"-I{include}" for include in includes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    if header.endswith("_stl.h"):
        assert done.returncode == 0, done.stderr
    else:
        assert "with nanobind before 3.1 include <isthmus/nanobind_stl.h> for a pair or tuple of views" in done.stderr
