"""The rows of an exchange from several threads, with the GIL and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


class NoPeers:
    def version(self, library: str) -> str:
        return f"version of {library}"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import threads

    return threads


def test_each_thread_has_an_array_of_its_own(monkeypatch: pytest.MonkeyPatch, threads: Any) -> None:
    monkeypatch.setattr(threads, "CALLS", 64)
    monkeypatch.setattr(threads, "THREADS", (1, 8))
    seen: list[set[int]] = []

    def wall(function: Any, each: list[Any]) -> float:
        seen.append({id(x) for x in each})
        return threads_wall(function, each)

    threads_wall = threads.wall
    monkeypatch.setattr(threads, "wall", wall)
    called: list[Any] = []
    found = threads.measure({"f": called.append}, 9)
    assert [len(ids) for ids in seen] == [1] * 3 + [8] * 3
    assert set(found) == {1, 8}
    assert all(figures["f"] > 0 for figures in found.values())
    assert len(called) == 64 * 6


def test_the_row_says_how_to_get_the_other_interpreter(monkeypatch: pytest.MonkeyPatch, threads: Any) -> None:
    monkeypatch.delenv(threads.FREE_THREADED, raising=False)
    figures = {"1": {"floor": 20.0, "isthmus": 40.0}, "8": {"floor": 10.0, "isthmus": 15.0}}
    monkeypatch.setattr(threads, "measured_by", lambda python, rounds: figures)
    *measured, missing = threads.with_and_without_the_gil(NoPeers(), 9, lambda text: None)
    assert [(r["row"], r["library"], r["ns"], r["ratio_to_floor"]) for r in measured] == [
        ("array.array → C++, owned, with the GIL, 1 thread", "floor", 20.0, 1.0),
        ("array.array → C++, owned, with the GIL, 1 thread", "isthmus", 40.0, 2.0),
        ("array.array → C++, owned, with the GIL, 8 threads", "floor", 10.0, 1.0),
        ("array.array → C++, owned, with the GIL, 8 threads", "isthmus", 15.0, 1.5),
    ]
    assert missing["row"].endswith("without the GIL")
    assert missing["ns"] is None
    assert threads.FREE_THREADED in missing["why_not"]


def test_an_interpreter_that_is_not_there_is_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch, threads: Any) -> None:
    monkeypatch.setattr(threads.sys, "executable", "/nowhere/python")
    monkeypatch.setenv(threads.FREE_THREADED, "/nowhere/pythont")
    assert [bool(r["why_not"]) for r in threads.with_and_without_the_gil(NoPeers(), 9, lambda text: None)] == [
        True,
        True,
    ]
