"""isthmus bench and the clock under it."""

from __future__ import annotations

import json
import time

import pytest

from isthmus import bench, doctor, timing
from isthmus.__main__ import main
from isthmus.probe import child
from isthmus.probe.frameworks import FRAMEWORKS
from isthmus.timing import nanoseconds


def test_nanoseconds():
    assert 2e6 < nanoseconds(lambda seconds: time.sleep(seconds), 0.002, rounds=1, turn_ms=4) < 50e6


def test_bench(capsys):
    assert main(["bench", "--rounds", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = {(row["exchange"], row["by"]): row for row in report["rows"]}
    assert rows["numpy -> tensor", "isthmus.from_dlpack"]["ns"] >= 0
    assert rows["tensor -> numpy", "t.to('numpy')"]["ns"] >= 0
    assert not [row for row in report["rows"] if "isthmus" in row["by"] and "error" in row]


def test_bench_in_words(capsys):
    assert main(["bench", "--rounds", "1"]) == 0
    assert "numpy -> tensor" in capsys.readouterr().out


def described(call: timing.Call) -> tuple[object, ...]:
    """What is called, and of what: the same for two calls that cost the same."""
    function, argument = call
    owner = getattr(function, "__self__", None)
    kind = function.__name__, type(owner).__name__
    if isinstance(argument, str):
        return *kind, argument, tuple(owner.shape), str(owner.dtype)
    return *kind, type(argument).__name__, tuple(argument.shape), str(argument.dtype)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_bench_probe_and_doctor_time_the_same_call_by_the_same_clock(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each had a way of its own once, and the same exchange three prices."""
    pytest.importorskip(name)
    seen: list[timing.Call] = []

    def clock(calls, *, rounds=timing.ROUNDS, turn_ms=timing.TURN_MS):
        assert turn_ms == timing.TURN_MS
        seen.extend(calls)
        return [1.0] * len(calls)

    monkeypatch.setattr(timing, "compare", clock)
    monkeypatch.setattr(bench, "compare", clock)
    names = [(row["exchange"], row["by"]) for row in bench.bench()["rows"] if "ns" in row]
    of_bench = dict(zip(names, seen, strict=True))
    framework = next(each for each in FRAMEWORKS.values() if each.module == name)

    seen.clear()
    array = framework.make()
    child.try_in(framework, array)
    child.try_out(framework)
    into, out = map(described, seen)
    assert into == described(of_bench[f"{name} -> tensor", "isthmus.from_dlpack"])
    assert out == described(of_bench[f"tensor -> {name}", f"t.to({name!r})"])
    assert out[0] == "to", "the method itself, with nothing of Python around it"

    seen.clear()
    doctor.examine(array)
    assert into in map(described, seen)


class StandingClock:
    """Time passes only in the calls that say so, 10 ns for the call itself and what it takes beside."""

    now = 0

    def __call__(self) -> int:
        return self.now

    def take(self, ns: float) -> None:
        self.now += 10 + int(ns)


def test_the_call_that_does_nothing_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StandingClock()
    monkeypatch.setattr(timing, "perf_counter_ns", clock)
    monkeypatch.setattr(timing, "_nothing", lambda _: clock.take(0))
    assert timing.compare([(clock.take, 5), (clock.take, 700)], rounds=3, turn_ms=0.01) == [5.0, 700.0]
    assert timing.nanoseconds(clock.take, 30, turn_ms=0.01) == 30.0


def test_the_best_turn_of_each_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StandingClock()
    spent = {"nothing": iter([20, 0, 50]), "call": iter([900, 400, 300])}
    monkeypatch.setattr(timing, "perf_counter_ns", clock)
    monkeypatch.setattr(timing, "_calls_in", lambda call, turn_ns: 1)
    monkeypatch.setattr(timing, "_nothing", lambda _: clock.take(next(spent["nothing"])))
    assert timing.compare([(lambda _: clock.take(next(spent["call"])), None)], rounds=3) == [300.0]
