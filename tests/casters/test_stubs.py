"""What a type checker makes of a module's stub: right calls pass, and what is no tensor is an error before the program
runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = "isthmus_nanobind_test_ext"
RIGHT = """
ext.sum(x)
ext.sum(memoryview(b""))
ext.sum(ext.counting(3))
ext.sum(x.__dlpack__())
ext.count(None)
ext.keep(x)
ext.fill(x, 1.0)
ext.signals_sum([x, x])
numpy_result: np.ndarray = ext.counting_numpy(3)
tensor: isthmus.Tensor = ext.counting(3)
array: np.ndarray = tensor.to("numpy")
"""
WRONG = """
ext.sum("text")
ext.sum([1.0])
ext.sum(3.0)
ext.sum(None)
ext.sum(object())
ext.keep({})
ext.fill(1.0, x)
ext.signals_sum([1.0, 2.0])
other: int = ext.counting_numpy(3)
"""
# What the stub of isthmus names of them is looked at as Any: analysing torch takes half a minute.
CONFIGURATION = """
[mypy]
python_version = {version}
[mypy-torch.*,jax.*]
follow_imports = skip
ignore_missing_imports = True
"""


@pytest.fixture
def stub() -> str:
    ext = pytest.importorskip(MODULE)
    stubgen = pytest.importorskip("nanobind.stubgen")
    generator = stubgen.StubGen(ext)
    generator.put(ext)
    return generator.get()


def test_a_stub_is_valid_python(stub: str) -> None:
    compile(stub, "stub.pyi", "exec")
    wanted = "Annotated[isthmus.typing.TensorLike, 'float32[n, d] on cpu']"
    assert wanted in stub.replace("typing.Annotated", "Annotated").replace('"', "'")


def test_a_checker_finds_what_is_no_tensor(stub: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (requirements/test.txt)")
    (tmp_path / f"{MODULE}.pyi").write_text(stub)
    (tmp_path / "mypy.ini").write_text(CONFIGURATION.format(version="{}.{}".format(*sys.version_info)))
    head = f"import isthmus, numpy as np, {MODULE} as ext\nx = np.zeros((2, 3), np.float32)\n"
    (tmp_path / "use.py").write_text(head + RIGHT + WRONG)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "use.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = {
        int(line.split(":")[1])
        for line in found.stdout.splitlines()
        if line.startswith("use.py:") and ": error:" in line
    }
    first = (head + RIGHT).count("\n") + 2  # WRONG begins with an empty line
    assert lines == set(range(first, first + WRONG.count("\n") - 1)), found.stdout + found.stderr
