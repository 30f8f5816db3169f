"""The programs of docs/weights.md run as they stand there."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "weights.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model of one tensor: float32, 1.5 and 2.5."""
    header = json.dumps({"encoder.bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode().ljust(120)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1.5, 2.5))
    return tmp_path


def test_python(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "1 float32 (2,) True\n4.0\n"), done.stderr


def test_cpp(folder: Path) -> None:
    (folder / "program.cpp").write_text(block("cpp"))
    flags = [*isthmus.get_cflags(), "-Wall", "-Wextra", "-Werror"]
    command = ["c++", *flags, "program.cpp", *isthmus.get_ldflags(), "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    done = subprocess.run([folder / "program"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "encoder.bias float32\n1.5\n"), done.stderr
