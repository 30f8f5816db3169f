"""What the tests of the torch bridge share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)

if os.environ.get("ISTHMUS_TEST_NO_EXCHANGE_API"):
    # As torch was before 2.10.
    for cls in (torch.Tensor, torch._C.TensorBase):
        if "__dlpack_c_exchange_api__" in vars(cls):
            del cls.__dlpack_c_exchange_api__

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_script() -> Script:
    """Runs Python code in a process of its own, which must end well and say nothing on stderr."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        import isthmus_torch_stable_ext

        folder = str(Path(isthmus_torch_stable_ext.__file__).parent)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run
