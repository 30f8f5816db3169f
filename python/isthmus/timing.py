"""The cost of a call: the one clock of ``isthmus bench``, ``isthmus probe`` and ``isthmus doctor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ._isthmus import _nothing

if TYPE_CHECKING:
    import isthmus

#: A function and its argument: what is timed.
Call = tuple[Callable[[Any], Any], Any]

#: How many elements an exchange has that is timed.
ELEMENTS = 1000
ROUNDS = 7
TURN_MS = 5.0


def way_out(tensor: isthmus.Tensor, to: str | Callable[[isthmus.Tensor], Any]) -> Call:
    """The call that exports `tensor`: its own method with the name of a framework, no Python around it."""
    return (tensor.to, to) if isinstance(to, str) else (to, tensor)


def _turn(call: Call, count: int) -> int:
    function, argument = call
    start = perf_counter_ns()
    for _ in range(count):
        function(argument)
    return perf_counter_ns() - start


def _calls_in(call: Call, turn_ns: float) -> int:
    """How many calls fill a turn; the first ones warm up."""
    count = 1
    while (spent := _turn(call, count)) < turn_ns / 10:
        count *= 10 if spent * 10 < turn_ns / 10 else 2
    return max(1, int(count * turn_ns / max(spent, 1)))


def compare(calls: Sequence[Call], *, rounds: int = ROUNDS, turn_ms: float = TURN_MS) -> list[float]:
    """Nanoseconds of each ``function(argument)`` called from Python, result dropped, less those of a call that does
    nothing.

    All take turns, round by round, for the machine is never equally fast for long. Of each the best turn counts, of the
    call
    that does nothing too: noise only ever adds.
    """
    nothing: Call = (_nothing, None)
    timed = [(nothing, _calls_in(nothing, 1e6 * turn_ms / 4))]
    timed += [(call, _calls_in(call, 1e6 * turn_ms)) for call in calls]
    best = [float("inf")] * len(timed)
    for _ in range(rounds):
        for i, (call, count) in enumerate(timed):
            best[i] = min(best[i], _turn(call, count) / count)
    return [round(max(ns - best[0], 0.0), 1) for ns in best[1:]]


def nanoseconds(
    function: Callable[[Any], Any], argument: Any, *, rounds: int = ROUNDS, turn_ms: float = TURN_MS
) -> float:
    """`compare` of a single call."""
    return compare([(function, argument)], rounds=rounds, turn_ms=turn_ms)[0]
