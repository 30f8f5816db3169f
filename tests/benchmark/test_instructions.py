"""The length of an exchange in instructions, which no noise touches: it must not grow unseen.

What is compared is the ratio to the hand-written floor of the same run, so that another compiler or Python moves both
sides. `benchmarks/counts.py` records benchmarks/instructions.json anew.
"""

from __future__ import annotations

import importlib.util
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

        try:
            return counts.count(("jax",) if importlib.util.find_spec("jax") else ())
        except build.Unavailable as why:
            if why.is_mistake():
                raise
            pytest.skip(str(why))
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("library", ["isthmus", "isthmus header-only", "isthmus, stable ABI"])
@pytest.mark.parametrize("row", [row for row in RECORDED if "torch" not in row])
def test_an_exchange_takes_no_more_instructions_than_recorded(
    row: str, library: str, counted: dict[str, dict[str, float]]
) -> None:
    if row not in counted:
        pytest.skip("no jax")
    was, now = RECORDED[row], counted[row]
    assert now[library] / now["floor"] <= MARGIN * was[library] / was["floor"], f"{row}: {now} now, {was} recorded"


@pytest.mark.parametrize("row", RECORDED)
def test_the_library_costs_no_more_than_what_a_user_compiles_whole(row: str) -> None:
    assert RECORDED[row]["isthmus"] <= 1.05 * RECORDED[row]["isthmus header-only"]


@pytest.mark.parametrize("library", ["isthmus", "isthmus header-only", "isthmus, stable ABI"])
def test_a_jax_array_is_borrowed_for_little_more_than_its_buffer(library: str) -> None:
    """jaxlib takes some 3,300 instructions to lend it and to take it back."""
    row = RECORDED["jax → C++, borrowed"]
    assert row[library] <= 1.15 * row["floor"]
