# SPDX-License-Identifier: Apache-2.0
"""The benchmark of threads counts what all of them do in one time, and its tables are made of that."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import scaling  # noqa: E402

sys.path.pop(0)

NAP = 0.02


def one_at_a_time() -> object:
    """As under a GIL: whoever works keeps the others waiting."""
    lock = threading.Lock()

    def work(x: object, count: int) -> None:
        with lock:
            time.sleep(NAP)

    return work


def all_at_once() -> object:
    return lambda x, count: time.sleep(NAP)


@pytest.mark.parametrize("locked", [True, False])
def test_the_rate_is_that_of_all_threads_together(locked: bool) -> None:
    """A nap takes its time at least, so that one at a time cannot be more than these."""
    module = SimpleNamespace(nap=one_at_a_time() if locked else all_at_once())
    turn = scaling.take_turn(scaling.Row("naps", "nap"), module, range(8), 8, 0.3)
    assert (turn.rate <= scaling.CHUNK / NAP) == locked


@pytest.mark.parametrize("same", [True, False])
def test_who_has_which_array(same: bool) -> None:
    seen = set()
    module = SimpleNamespace(look=lambda x, count: seen.add(x))
    scaling.take_turn(scaling.Row("looks", "look", same=same), module, range(8), 4, 0.001)
    assert seen == ({0} if same else {0, 1, 2, 3})


@pytest.mark.parametrize("calls", [True, False])
def test_a_call_of_python_is_one_exchange(calls: bool) -> None:
    counts = set()
    module = SimpleNamespace(look=lambda x, count: counts.add(count))
    scaling.take_turn(scaling.Row("looks", "look", calls=calls), module, range(1), 1, 0.001)
    assert counts == {1 if calls else scaling.CHUNK}


def test_a_thread_that_fails_is_told() -> None:
    module = SimpleNamespace(fail=lambda x, count: 1 / x)
    with pytest.raises(ZeroDivisionError):
        scaling.take_turn(scaling.Row("f", "fail"), module, [1, 1, 0], 3, 0.001)


def test_the_table_has_the_median_of_the_gains() -> None:
    def turn(gain: float, threads: int) -> scaling.Turn:
        return scaling.Turn(rate=100 * (1 if threads == 1 else gain), cpu_ns=10 * threads)

    def a_round(machine: float, gain: float) -> list[list[scaling.Turn]]:
        """On more threads than one arithmetic gains as the machine does, and every other row by `gain`."""
        return [[turn(machine if row is scaling.CONTROL else gain, n) for n in scaling.THREADS] for row in scaling.ROWS]

    rows = scaling.summary([a_round(2, 1.5), a_round(1, 0.5), a_round(2, 1.8)])
    borrowed = next(r for r in rows if r["row"] == "borrowed, an array each" and r["threads"] == 2)
    assert (borrowed["gain"], borrowed["of_the_machine"], borrowed["cpu_ns"]) == (1.5, 0.75, 20)
    text = scaling.table(rows)
    assert "| borrowed, an array each | 1.50 (0.75) | 1.50 (0.75) | 1.50 (0.75) | 10 | 20 |" in text
    assert len(text.splitlines()) == len(scaling.ROWS) + 2
