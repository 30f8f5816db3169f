"""The program of docs/distributed.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("isthmus")
pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "distributed.md").read_text()


def test_python(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(re.findall(r"(?ms)^```python\n(.*?)^```$", GUIDE)[0])
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[2000000.0, 2000000.0]\n1000000.0\n"), done.stderr
