"""The tutorials of examples/, followed as they stand: built from the installed package, run,
compared with what they show."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
import readmes

pytest.importorskip("isthmus")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: What each needs beside Isthmus and a C++ compiler: packages of Python, and programs with a point in front.
NEEDS = {
    "with_nanobind": "numpy torch nanobind scikit_build_core .cmake",
    "with_pybind11": "numpy torch pybind11 .cmake",
    "bare": "numpy .meson .ninja",
    "my_class": "numpy torch nanobind .cmake",
    "camera": "numpy torch pybind11 .cmake",
    "threads": "numpy torch pybind11 .cmake",
    "torch_op": "numpy torch",
    "torch_kernels": "numpy torch .strip",
    "shared_weights": "numpy torch safetensors",
}
TUTORIALS = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
#: A command of a tutorial that a test of its own runs, where the engine is installed.
ELSEWHERE = {"shared_weights": "run.py ray"}


def require(name: str) -> None:
    for need in NEEDS[name].split():
        if need.startswith(".") and shutil.which(need[1:], path=readmes.PATH) is None:
            pytest.skip(f"{need[1:]} is not installed")
        if not need.startswith(".") and importlib.util.find_spec(need) is None:
            pytest.skip(f"{need} is not installed: pip install -r requirements/test.txt")


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_code_is_that_of_the_files(name: str) -> None:
    assert readmes.strangers(EXAMPLES / name) == []
    assert readmes.blocks(EXAMPLES / name)


@pytest.mark.slow
@pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")
@pytest.mark.parametrize("name", NEEDS)
def test_it_does_what_its_readme_says(name: str, tmp_path: Path) -> None:
    require(name)
    readmes.follow(EXAMPLES / name, tmp_path, leave_out=ELSEWHERE.get(name, "\0"))


def test_what_is_printed_is_compared() -> None:
    """The comparison itself: what varies may, and nothing else."""
    assert readmes.shown("at 0x..., 3 frames\n", "at 0x55aa, 3 frames\n") == ""
    assert "3 frames" in readmes.shown("at 0x..., 3 frames\n", "at 0x55aa, 4 frames\n")
