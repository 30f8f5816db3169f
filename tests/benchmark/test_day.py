"""The rows of a user's day: each call as it is, on the list of what is shared,
and by a thread that has to take the GIL."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_every_call_has_its_three_rows() -> None:
    np = pytest.importorskip("numpy")
    import day

    names = [row.name for row in day.rows(np, types.SimpleNamespace(zeros=lambda n: None))]
    plain = [name for name in names if day.LISTED not in name and day.THREAD not in name]
    assert len(plain) == 2 * len(day.CALLS) + len(day.CALLS) - 1
    for name in plain:
        assert [n for n in names if n == name or n.startswith(f"{name}, ")] == [
            name, f"{name}, {day.LISTED}", f"{name}, {day.THREAD}",
        ]  # fmt: skip


def test_the_list_is_kept_for_the_row_alone() -> None:
    isthmus = pytest.importorskip("isthmus")
    np = pytest.importorskip("numpy")
    import day

    row = next(row for row in day.rows(np, types.SimpleNamespace(zeros=lambda n: None)) if day.LISTED in row.name)
    assert not isthmus.live.enabled
    with row.within():
        assert isthmus.live.enabled
    assert not isthmus.live.enabled


def test_a_statement_of_many_calls_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    import harness

    monkeypatch.setattr(harness, "take_turns", lambda timers, empties, rounds: ([[900.0, 1000.0]] * 2, {}))
    plain, many = harness.compare(
        [harness.Contender("plain", "pass", {}, empty=""), harness.Contender("many", "pass", {}, empty="", times=100)],
        2,
    )
    assert (plain.turns, many.turns) == ([900.0, 1000.0], [9.0, 10.0])


def test_a_thread_of_c_takes_the_gil_for_every_call() -> None:
    pytest.importorskip("numpy")
    import build

    floor = build.build(next(peer for peer in build.PEER_LIST if peer.name == "floor"))
    if floor.why_not:
        pytest.skip(f"floor: {floor.why_not}")
    code = (
        "import sys, threading; sys.path.insert(0, sys.argv[1]); import bench_floor; seen = []\n"
        "bench_floor.from_thread(5, lambda *a: seen.append((threading.get_ident(), a)), 'x', 'y')\n"
        "assert len(seen) == 5 and len(set(seen)) == 1 and seen[0][1] == ('x', 'y'), seen\n"
        "assert seen[0][0] != threading.get_ident()\n"
        "sys.unraisablehook = lambda u: seen.append(u.exc_type)\n"
        "try: bench_floor.from_thread(5, lambda: 1 / 0)\n"
        "except RuntimeError: assert seen[5:] == [ZeroDivisionError], seen\n"
        "else: assert False\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(build.MODULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
