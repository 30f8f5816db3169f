"""<torch/extension.h> beside our casters, in both orders: at::Tensor has one caster then, which is torch's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import isthmus

CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())

TORCHS = "#include <torch/extension.h>\n"
OURS = "#include <isthmus/torch.h>\n#include <isthmus/pybind11.h>\n"
MODULE = """
at::Tensor same(const at::Tensor& x, const isthmus::View<const float, 1>&) { return x; }
isthmus::Tensor owned(isthmus::Tensor x) { return x; }
PYBIND11_MODULE(both, m) {
    m.def("same", same);
    m.def("owned", owned);
}
"""


def torch_includes() -> list[str]:
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        pytest.skip("torch is not installed")
    root = Path(found.submodule_search_locations[0]) / "include"
    if not (root / "torch" / "csrc" / "api" / "include" / "torch" / "all.h").exists():
        pytest.skip("torch has no headers here")
    return [f"-isystem{root}", f"-isystem{root / 'torch/csrc/api/include'}"]


@pytest.mark.parametrize("order", ["torch's first", "ours first"])
def test_both_headers_compile(order: str, tmp_path: Path) -> None:
    headers = TORCHS + OURS if order == "torch's first" else OURS + TORCHS
    source = tmp_path / "both.cpp"
    source.write_text(headers + MODULE)
    python = subprocess.run([sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True).stdout.split()
    command = [CXX, "-std=c++20", "-fsyntax-only", f"-I{INCLUDE}", *python, *torch_includes(), str(source)]
    done = subprocess.run([*command, f"-I{sysconfig.get_path('include')}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
