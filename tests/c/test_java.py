"""Python hosts a Java virtual machine and exchanges messages with it: examples/java."""

from __future__ import annotations

from pathlib import Path

import pytest
import readmes

pytest.importorskip("numpy")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "java"


def test_java(run_example, needs, unsanitized, tmp_path: Path) -> None:
    needs("javac", "cc")
    printed = run_example(EXAMPLE / "run.sh", tmp_path)
    # The virtual machine checks how its native interface is used, and would warn here.
    wanted = [text for language, text in readmes.blocks(EXAMPLE) if language == "text"][-1]
    assert readmes.shown(wanted, printed) == ""
