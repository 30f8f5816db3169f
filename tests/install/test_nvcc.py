"""Every public header in a .cu file, and the file of docs/devices.md,
by each nvcc on PATH and by that of the Python packages."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from compiling import CXX, compiled
from header_programs import CUDA_MDSPAN, PROGRAMS, ROOT, folders_of, platforms

GUIDE = (ROOT / "docs" / "devices.md").read_text()
HOW = "no nvcc; make test-nvcc installs it, or pip install -r requirements/nvcc.txt"
PYTHON = Path(sysconfig.get_path("include"))
FLAGS = ["-std=c++20", "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra"]

USE = """
import sums, numpy as np
x = np.arange(5, dtype="f4")
assert (sums.add(x, 2 * x) == 3 * x).all()
print(sums.add.__doc__)
"""


def installed() -> dict[str, Path]:
    """By the version that each tells."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations or () if spec else ()
    packaged = [path for folder in folders for path in Path(folder).glob("cu*/bin/nvcc")]
    found: dict[str, Path] = {}
    for path in (shutil.which("nvcc"), *packaged):
        if path is None:
            continue
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if version := re.search(r"release ([\d.]+)", told):
            found.setdefault(version[1], Path(path))
    return found


NVCC = installed()


@pytest.fixture(params=NVCC or [pytest.param("", marks=pytest.mark.skip(reason=HOW))])
def nvcc(request: pytest.FixtureRequest) -> Path:
    return NVCC[request.param]


def version_of(nvcc: Path) -> int:
    return next(int(version.split(".")[0]) for version, path in NVCC.items() if path == nvcc)


def system(*folders: Path) -> list[str | Path]:
    """Options for headers whose warnings are others' own. In two words, as nvcc wants them."""
    return [word for folder in folders for word in ("-isystem", folder)]


def run_nvcc(nvcc: Path, folder: Path, *arguments: str | Path) -> None:
    """Fails also at a warning that names a file of ours."""
    command = [nvcc, f"-ccbin={CXX}", *FLAGS, f"-I{ROOT / 'include'}", *system(platforms.dlpack(), PYTHON), *arguments]
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=600)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    ours = [line for line in said.splitlines() if re.search(r"(isthmus/|src/|\.cu)\S*\(?\d*\)?:.*warning", line)]
    assert not ours, said[-6000:]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "header-only" not in name])
def test_every_header(nvcc: Path, name: str, tmp_path: Path) -> None:
    """As far as the file that the host's compiler is given: nvcc's own front end is what differs."""
    folders = folders_of(name)
    before = CUDA_MDSPAN if name == "mdspan" else ""
    program = PROGRAMS[name][0]
    if version_of(nvcc) < 13:  # it deduces no value of a class, as Argument<V, "name"> has them
        program = re.sub(r"(?m)^.*twice.*$", "", program)
    kernel = "__global__ void kernel(float* x) { x[threadIdx.x] = 1; }\n"
    (tmp_path / "program.cu").write_text(before + program + kernel)
    run_nvcc(nvcc, tmp_path, *system(*folders), "--cuda", "program.cu", "-o", "program.ii")


def test_the_file_of_the_guide(nvcc: Path, tmp_path: Path) -> None:
    """The operator's function for the host runs too; a GPU is needed for the other."""
    pytest.importorskip("numpy")
    (source,) = re.findall(r"(?ms)^```cpp\n(// sums\.cu\n.*?)^```$", GUIDE)
    (tmp_path / "sums.cu").write_text(source)
    run_nvcc(nvcc, tmp_path, "-c", "sums.cu", "-o", "sums.o")
    folders = [f"-I{ROOT / 'include'}", *system(platforms.dlpack(), PYTHON)]
    command = [CXX, "-std=c++20", "-O0", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-c", *folders]
    bodies = [
        compiled(f"{name}.o", [*command, ROOT / "src" / f"{name}.cpp"], ROOT / "src") / f"{name}.o"
        for name in ("core", "bridge")
    ]
    module = f"sums{sysconfig.get_config_var('EXT_SUFFIX')}"
    run_nvcc(nvcc, tmp_path, "-shared", "sums.o", *bodies, "-o", module)
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "Adds two arrays.\n"), done.stderr
