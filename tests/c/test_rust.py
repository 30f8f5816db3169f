"""Rust and Python exchange tensors in one process: examples/rust."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rust"


def test_rust(run_example, needs, unsanitized, tmp_path: Path) -> None:
    needs("cargo", "cc")
    printed = run_example(EXAMPLE / "run.sh", tmp_path)
    assert printed.count("test result: ok") == 3, printed
    assert "6 passed; 0 failed" in printed
    assert printed.splitlines()[-5:] == [
        "python -> rust: same memory, written in place, array released once",
        "python -> rust: the array lived as long as Rust held it",
        "rust -> python: same memory, Vec dropped once, with its last view",
        "refused: a write to read-only memory, a managed tensor that is NULL",
        "ok",
    ]
