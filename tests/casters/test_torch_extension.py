"""<torch/extension.h> beside our casters, in both orders: at::Tensor has one caster then, which is torch's."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from compiling import CXX, package_folder

import isthmus

INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())

#: The header that has torch's casters, and by which headers <torch/extension.h> comes to it:
#: four times quicker to compile.
CASTERS = "torch/csrc/utils/pybind.h"
WAY = ["torch/extension.h", "torch/csrc/api/include/torch/python.h", CASTERS]
TORCHS = f"#include <{CASTERS}>\n"
OURS = "#include <isthmus/torch.h>\n#include <isthmus/pybind11.h>\n"
MODULE = """
at::Tensor same(const at::Tensor& x, const isthmus::View<const float, 1>&) { return x; }
isthmus::Tensor owned(isthmus::Tensor x) { return x; }
PYBIND11_MODULE(both, m) {
    m.def("same", same);
    m.def("owned", owned);
}
"""


@pytest.fixture(scope="module")
def torch_headers() -> Path:
    found = package_folder("torch")
    if found is None:
        pytest.skip("torch is not installed")
    root = found / "include"
    if not (root / WAY[0]).exists():
        pytest.skip("torch has no headers here")
    return root


def test_the_extension_header_has_those_casters(torch_headers: Path) -> None:
    for header, included in itertools.pairwise(WAY):
        name = included.removeprefix("torch/csrc/api/include/")
        assert f"#include <{name}>" in (torch_headers / header).read_text(), header


@pytest.mark.slow
@pytest.mark.parametrize("order", ["torch's first", "ours first"])
def test_both_headers_compile(order: str, torch_headers: Path, tmp_path: Path) -> None:
    headers = TORCHS + OURS if order == "torch's first" else OURS + TORCHS
    source = tmp_path / "both.cpp"
    source.write_text(headers + MODULE)
    python = subprocess.run(
        [sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True
    ).stdout.split()
    torchs = [f"-isystem{torch_headers}", f"-isystem{torch_headers / 'torch/csrc/api/include'}"]
    command = [CXX, "-std=c++20", "-fsyntax-only", f"-I{INCLUDE}", *python, *torchs, str(source)]
    done = subprocess.run([*command, f"-I{sysconfig.get_path('include')}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
