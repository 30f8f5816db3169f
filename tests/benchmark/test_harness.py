"""Rows that were taken while the machine was busy are measured again, the first ones too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import harness

    monkeypatch.setattr(harness, "least_empty", {})
    monkeypatch.setattr(harness, "compared_empties", set())
    monkeypatch.setattr(harness, "PAUSE_SECONDS", 0)
    return harness


def measure(harness, monkeypatch, attempts: list[tuple[float, float]]) -> tuple[float, int]:
    """One row of one contender; of each attempt what the call and the empty call cost. The result, and how many
    attempts there were."""
    left = list(attempts)

    def take_turns(timers, empties, rounds):
        call, empty = left.pop(0)
        harness.least_empty["empty(x)"] = min(harness.least_empty.get("empty(x)", empty), empty)
        return [[call]], {"empty(x)": [empty]}

    monkeypatch.setattr(harness, "take_turns", take_turns)
    contender = harness.Contender("ours", "pass", {"empty": lambda x: x, "x": 1})
    (result,) = harness.compare([contender], 1)
    return result.ns, len(attempts) - len(left)


def test_the_first_row_is_compared_with_another_time(harness, monkeypatch):
    """Its empty calls alone say nothing: the machine may be as busy as it was all along."""
    assert measure(harness, monkeypatch, [(96, 30), (50, 15), (0, 0)]) == (35, 2)


def test_a_quiet_row_is_measured_once_after_the_first(harness, monkeypatch):
    measure(harness, monkeypatch, [(50, 15), (50, 15)])
    assert measure(harness, monkeypatch, [(60, 15), (0, 0)]) == (45, 1)


def test_a_busy_row_is_measured_until_it_is_quiet(harness, monkeypatch):
    measure(harness, monkeypatch, [(50, 15), (50, 15)])
    assert measure(harness, monkeypatch, [(96, 30), (90, 29), (55, 15), (0, 0)]) == (40, 3)


def test_rows_before_the_machine_became_quiet_are_measured_again(harness, monkeypatch):
    pytest.importorskip("numpy")
    import bench

    harness.least_empty["empty(x)"] = 15.0
    prepared = []

    class Row:
        def __init__(self, name: str) -> None:
            self.name = name

    def finish(name: str, ns: float, empty: float) -> list[dict[str, object]]:
        results: list[dict[str, object]] = [{"library": "isthmus", "ns": ns, "published": 1}]
        again = bench.Finished(Row(name), lambda: prepared.append(name), results, {"empty(x)": empty})
        monkeypatch.setattr(bench, "finished", [*bench.finished, again])
        return results

    busy, quiet, still_busy = finish("busy", 96, 30), finish("quiet", 50, 15), finish("still busy", 90, 30)
    measured = {"busy": (40, 15), "still busy": (99, 31)}

    def again(row, peers, rounds):
        ns, empty = measured[row.name]
        return [{"library": "isthmus", "ns": ns}], {"empty(x)": empty}

    monkeypatch.setattr(bench, "measure", again)
    bench.measure_again(None, 1, lambda text: None)
    assert prepared == ["busy", "still busy"]
    assert (busy[0]["ns"], quiet[0]["ns"], still_busy[0]["ns"]) == (40, 50, 90)
    assert busy[0]["published"] == 1
    assert bench.finished == []


@pytest.mark.parametrize("sizes", [["4 kB"], ["4 kB", "1 GB"]])
def test_a_run_of_some_rows_has_targets(sizes):
    """`bench.py --only` measures a part of the sizes, whose others are no figures."""
    import targets

    results = [{"row": f"numpy → C++, {size}", "library": name, "ns": 20.0} for size in sizes for name in
               ("isthmus", "floor")]  # fmt: skip
    flat = [target for target in targets.check(results) if "4 kB to 1 GB" in target.what]
    assert len(flat) == (len(sizes) > 1)
    assert all(target.holds for target in flat)
