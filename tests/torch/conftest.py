"""What the tests of the torch bridge share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import processes
import pytest
from fork_server import ForkServer

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)

if os.environ.get("ISTHMUS_TEST_NO_EXCHANGE_API"):
    # As torch was before 2.10.
    for cls in (torch.Tensor, torch._C.TensorBase):
        if "__dlpack_c_exchange_api__" in vars(cls):
            del cls.__dlpack_c_exchange_api__

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_forked() -> Callable[..., str]:
    """Runs Python code in a process of its own that has imported torch; it must end well,
    and what it printed comes back."""
    import isthmus_torch_stable_ext

    folders = Path(isthmus_torch_stable_ext.__file__).parent, processes.SUPPORT
    return ForkServer("import torch", processes.environment(*folders)).run_well


@pytest.fixture
def run_script() -> Script:
    """Runs Python code in a process of its own, which must end well."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        import isthmus_torch_stable_ext

        folders = Path(isthmus_torch_stable_ext.__file__).parent, processes.SUPPORT
        return processes.run_python(code, *folders, timeout=120, **environment)

    return run
