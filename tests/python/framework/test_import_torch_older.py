"""PyTorch without the stable shims: the same tests by the exchange API (2.10 and newer) or by `__dlpack__` (older)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import isthmus_test_ext as ext

pytest.importorskip("torch")


@pytest.mark.skipif("ISTHMUS_NO_TORCH_SHIMS" in os.environ, reason="the shims are hidden already")
def test_everything_without_the_shims() -> None:
    tests, more = (Path(__file__).with_name(f"test_import_torch_{name}.py") for name in ("stable", "by_python"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        f"pythonpath={Path(ext.__file__).parent}",
        tests,
        more,
    ]
    done = subprocess.run(
        command, env={**os.environ, "ISTHMUS_NO_TORCH_SHIMS": "1"}, cwd=tests.parents[3], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_shims_are_used_where_there_are_some(child) -> None:
    """Hidden or not makes a difference, or the other test would test nothing:
    only the shims ask no Python attribute."""
    code = """
        import torch, isthmus_test_ext as ext
        class Watched(torch.Tensor):
            asked = []
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                cls.asked.append(function)
                return super().__torch_function__(function, types, args, kwargs or {})
        x = torch.zeros(3).as_subclass(Watched)
        ext.borrow(x)
        print(len(Watched.asked))
    """
    version = tuple(int(part) for part in pytest.importorskip("torch").__version__.split(".")[:2])
    asked = int(child(code, ISTHMUS_NO_TORCH_SHIMS="0"))
    assert int(child(code, ISTHMUS_NO_TORCH_SHIMS="1")) > 0
    if version >= (2, 14):
        assert asked == 0
