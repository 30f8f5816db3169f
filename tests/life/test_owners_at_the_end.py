"""The owner of C++ memory is released when the interpreter ends, if a framework's tensor over it lives until then.

torch releases the GIL around the end of a tensor; the thread that ends the interpreter may take it again.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import processes
import pytest

ext = pytest.importorskip("isthmus_test_ext")

KEPT = {
    "numpy": "x = t.to('numpy')",
    "capsule": "x = t.__dlpack__(max_version=(1, 3))",
    "torch": "x = t.to('torch')",
    "torch, from_dlpack": "import torch; x = torch.from_dlpack(t)",
    "torch, in a cycle": "x = t.to('torch'); x.itself = x",
    "torch, in another module": "np.kept = t.to('torch')",
    "torch, a parameter": "import torch; x = torch.nn.Parameter(t.to('torch'))",
}
# What was written to the owner is flushed when it is released, and only then.
SCRIPT = """
import io
import numpy as np
import isthmus_test_ext as ext
owner = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
owner.write(b"released")
t = ext.own_by_python(np.zeros(3, np.float32), owner)
del owner
{kept}
del t
"""


@pytest.mark.parametrize("kept", KEPT)
def test_owner_is_released_at_the_end(kept: str) -> None:
    framework = kept.split(",")[0]
    if framework != "capsule" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"no {framework} here")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(kept=KEPT[kept])],
        env=processes.environment(Path(ext.__file__).parent),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "released"), done.stderr
