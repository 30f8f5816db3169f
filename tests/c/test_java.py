"""Python hosts a Java virtual machine and exchanges messages with it: examples/java."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "java"


def test_java(run_example, needs, unsanitized, tmp_path: Path) -> None:
    needs("javac", "cc")
    printed = run_example(EXAMPLE / "run.sh", tmp_path)
    # The virtual machine checks how its native interface is used, and would warn here.
    assert printed.splitlines() == [
        "python -> java: same memory, written in place, array released once",
        "python -> java: the array lived as long as Java held it",
        "java -> python: same memory, buffer released once, with its last view",
        "refused: a write to read-only memory, messages that contradict themselves; each owner released once",
        "ok",
    ]
