"""What the peers' builds promise to those who ask for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

ASK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import build
build.OUT = Path(sys.argv[2])
build.MODULES = build.OUT / "modules"
built = build.build(next(peer for peer in build.PEER_LIST if peer.name == "floor"))
assert not built.why_not, built.why_not
print(built.path.read_text())
"""

# Its file is there, and not whole, for as long as a linker's is.
COMPILER = """#!/bin/sh
echo compiled >> "$LOG"
while [ "$1" != -o ]; do shift; done
printf half > "$2"
sleep 0.5
printf ' a module' >> "$2"
"""


def test_a_module_is_built_once_and_never_seen_half_written(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    compiler, log = tmp_path / "cc", tmp_path / "log"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    environment = {**os.environ, "CC": str(compiler), "LOG": str(log)}
    command = [sys.executable, "-c", ASK, BENCHMARKS, tmp_path / "out"]
    asking = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in asking] == ["half a module"] * 3
    assert log.read_text().split() == ["compiled"]
