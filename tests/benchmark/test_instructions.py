"""The length of an exchange in instructions, which no noise touches: it must not grow unseen.

What is compared is the ratio to the hand-written floor of the same run, so that another compiler or Python moves both sides.
`benchmarks/counts.py` records benchmarks/instructions.json anew.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RECORDED = json.loads((BENCHMARKS / "instructions.json").read_text())
MARGIN = 1.15


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, float]]:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind, which counts the instructions")
    pytest.importorskip("numpy")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import build
        import counts

        built = [build.build(peer) for peer in build.PEER_LIST if peer.name in ("floor", "isthmus")]
        for module in built:
            if module.why_not:
                pytest.skip(f"{module.name}: {module.why_not}")
        rows: dict[str, dict[str, float]] = {}
        try:
            for row, library, count in counts.instructions(with_torch=False):
                rows.setdefault(row, {})[library] = count
        except build.Unavailable as why:
            pytest.skip(str(why))
        return rows
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("row", [row for row in RECORDED if "torch" not in row])
def test_an_exchange_takes_no_more_instructions_than_recorded(row: str, counted: dict[str, dict[str, float]]) -> None:
    was, now = RECORDED[row], counted[row]
    assert now["isthmus"] / now["floor"] <= MARGIN * was["isthmus"] / was["floor"], f"{row}: {now} now, {was} recorded"
