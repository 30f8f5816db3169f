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


def block(language: str, which: int = 0) -> str:
    return str(re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)[which])


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


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def test_other_formats(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("torch")
    numpy.savez(tmp_path / "arrays.npz", x=numpy.ones(3))
    header = struct.pack("<4sIQQ", b"GGUF", 3, 2, 1)
    header += text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    header += text(b"output_norm.weight") + struct.pack("<IQIQ", 1, 8, 0, 0)
    header += text(b"output.weight") + struct.pack("<IQQIQ", 2, 32, 8, 8, 32)
    (tmp_path / "model.gguf").write_bytes(header + bytes(-len(header) % 32) + bytes(32 + 8 * 34))
    command = [sys.executable, "-c", block("python", 1)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    said = r"""llama 2
isthmus.Tensor\(float32\[8\] on cpu at \S+, read-only\)
{'output.weight': 'Q8_0'}
isthmus.Tensor\(uint8\[8, 34\] on cpu at \S+, read-only\)
"""
    assert (done.returncode, re.fullmatch(said, done.stdout) is not None) == (0, True), done.stdout + done.stderr


def test_cpp(folder: Path) -> None:
    (folder / "program.cpp").write_text(block("cpp"))
    flags = [*isthmus.get_cflags(), "-Wall", "-Wextra", "-Werror"]
    command = ["c++", *flags, "program.cpp", *isthmus.get_ldflags(), "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    done = subprocess.run([folder / "program"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "encoder.bias float32\n1.5\n"), done.stderr
