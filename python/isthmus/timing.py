"""What a call costs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ._isthmus import _nothing


def _best(function: Callable[[Any], Any], argument: Any, rounds: int, spend_ns: float) -> float:
    """The fastest of `rounds`, in nanoseconds per call, each long enough for the clock."""

    def run(count: int) -> int:
        start = perf_counter_ns()
        for _ in range(count):
            function(argument)
        return perf_counter_ns() - start

    count = 1
    while (spent := run(count)) < spend_ns / 10:
        count *= 10 if spent * 10 < spend_ns / 10 else 2
    count = max(1, int(count * spend_ns / max(spent, 1)))
    return min(run(count) for _ in range(rounds)) / count


def nanoseconds(function: Callable[[Any], Any], argument: Any, *, rounds: int = 5, spend_ms: float = 10) -> float:
    """Nanoseconds of ``function(argument)`` called from Python, result dropped, less those of a call that does nothing.

    The best of `rounds`, each of about `spend_ms` milliseconds: noise only ever adds.
    """
    empty = _best(_nothing, argument, rounds, 1e6 * spend_ms / 4)
    return round(max(_best(function, argument, rounds, 1e6 * spend_ms) - empty, 0.0), 1)
