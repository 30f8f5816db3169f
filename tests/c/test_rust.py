"""Rust and Python exchange tensors in one process: examples/rust."""

from __future__ import annotations

from pathlib import Path

import pytest
import readmes

pytest.importorskip("numpy")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rust"


def test_rust(run_example, needs, unsanitized, tmp_path: Path) -> None:
    needs("cargo", "cc")
    printed = run_example(EXAMPLE / "run.sh", tmp_path)
    assert printed.count("test result: ok") == 3, printed
    assert "6 passed; 0 failed" in printed
    wanted = [text for language, text in readmes.blocks(EXAMPLE) if language == "text" and text.endswith("ok\n")][-1]
    assert readmes.shown(wanted, printed) == ""
