# SPDX-License-Identifier: Apache-2.0
"""Timing of calls: every contender of a row takes its turn in every round, so that noise meets all of them alike."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# One turn lasts about this long: far above the clock's grain, far below a scheduler's slice.
TURN_SECONDS = 0.002
# A row is disturbed when calling alone took longer in it than it ever did, by this factor; it is measured again then,
# and once more at the end if the machine became quieter after it.
DISTURBED = 1.1
ATTEMPTS = 5
PAUSE_SECONDS = 1.5
least_empty: dict[str, float] = {}
#: The statements of empty calls that were timed at two times, so that the least of them is not the row's alone.
compared_empties: set[str] = set()


@dataclass
class Contender:
    """One library in one row: a statement timed with `scope` as its globals."""

    library: str
    statement: str
    scope: dict[str, Any]
    note: str = ""
    empty: str = "empty(x)"  # what calling alone costs, subtracted
    times: int = 1  # how many calls the statement makes


@dataclass
class Measured:
    library: str
    note: str = ""
    turns: list[float] = field(default_factory=list)  # nanoseconds per call, one per round, the empty call subtracted
    why_not: str = ""
    nothing: dict[str, float] = field(default_factory=dict)  # the least of each empty call of its row

    @property
    def ns(self) -> float:
        return min(self.turns)

    @property
    def median(self) -> float:
        return statistics.median(self.turns)

    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, from the order of the turns: no distribution is assumed."""
        ordered = sorted(self.turns)
        n = len(ordered)
        spread = 0.98 * n**0.5
        return ordered[max(0, int(n / 2 - spread))], ordered[min(n - 1, int(n / 2 + spread))]

    def figures(self) -> dict[str, Any]:
        """As the results have them."""
        low, high = self.interval()
        return {
            "ns": round(self.ns, 1),
            "median_ns": round(self.median, 1),
            "median_95": [round(low, 1), round(high, 1)],
        }


@contextlib.contextmanager
def pinned() -> Iterator[int | None]:
    """One core for the time of a measurement, where the system lets us choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    try:
        os.sched_setaffinity(0, {core})
    except OSError:
        yield None
        return
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


def calibrate(timer: timeit.Timer) -> int:
    """How many calls fill one turn; the first ones are the warm-up.

    The least of three: one interruption would otherwise pass for a slow call,
    and the turns would be too short to be true.
    """
    calls = 1
    while True:
        taken = min(timer.repeat(3, calls))
        if taken >= TURN_SECONDS / 4:
            return max(1, int(calls * TURN_SECONDS / taken))
        calls *= 4


Entry = tuple[timeit.Timer, int]


def take_turns(
    timers: list[Entry | None], empties: dict[str, Entry], rounds: int
) -> tuple[list[list[float]], dict[str, list[float]]]:
    """Nanoseconds per call: of each contender, and of each empty call."""
    raw: list[list[float]] = [[] for _ in timers]
    nothing: dict[str, list[float]] = {empty: [] for empty in empties}
    gc.collect()
    for _ in range(rounds):
        for empty, (timer, calls) in empties.items():
            nothing[empty].append(timer.timeit(calls) / calls * 1e9)
        for turns, entry in zip(raw, timers, strict=True):
            if entry is not None:
                timer, calls = entry
                turns.append(timer.timeit(calls) / calls * 1e9)
    for empty, turns in nothing.items():
        least_empty[empty] = min(least_empty.get(empty, turns[0]), *turns)
    return raw, nothing


def least_of(nothing: dict[str, list[float]]) -> dict[str, float]:
    return {empty: min(turns) for empty, turns in nothing.items()}


def disturbed(nothing: dict[str, float]) -> bool:
    """Whether the empty calls of a row, the least of each, cost more than such a call did at the quietest time."""
    return any(ns > DISTURBED * least_empty[empty] for empty, ns in nothing.items())


def compare(contenders: list[Contender], rounds: int) -> list[Measured]:
    """Measures the contenders of one row. One that raises is kept, with its reason. Whether the row is measured again
    depends on the empty calls alone, never on the contenders; of several attempts the one with the cheapest empty calls
    counts."""
    results = [Measured(c.library, c.note) for c in contenders]
    timers: list[Entry | None] = []
    for contender, result in zip(contenders, results, strict=True):
        timer = timeit.Timer(contender.statement, globals=contender.scope)
        try:
            timers.append((timer, calibrate(timer)))
        except Exception as why:  # whatever a peer raises is the news
            result.why_not = f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"[:200]
            timers.append(None)
    empties: dict[str, Entry] = {}
    for contender in contenders:
        if contender.empty and contender.empty not in empties:
            timer = timeit.Timer(contender.empty, globals=contender.scope)
            empties[contender.empty] = (timer, calibrate(timer))
    # An empty call that is new has nothing to be compared with but itself, at another time.
    alone = bool(empties.keys() - compared_empties)
    attempts = [take_turns(timers, empties, rounds)]
    while len(attempts) < ATTEMPTS and (alone or disturbed(least_of(attempts[-1][1]))):
        time.sleep(PAUSE_SECONDS)
        attempts.append(take_turns(timers, empties, rounds))
        alone = False
    compared_empties.update(empties)
    raw, nothing = min(attempts, key=lambda attempt: sum(least_of(attempt[1]).values()))
    for contender, result, turns in zip(contenders, results, raw, strict=True):
        result.nothing = least_of(nothing)
        turns = [turn / contender.times for turn in turns]
        # The cheapest empty call: subtracting a disturbed one would flatter.
        least = min(nothing[contender.empty]) if contender.empty else 0.0
        if turns and min(turns) <= least:
            result.why_not = "too short to be told from an empty call in this noise"
        else:
            result.turns = [turn - least for turn in turns]
    return results


def repeat_seconds(function: Callable[[], object], least: int = 3, seconds: float = 0.5) -> list[float]:
    """For what takes milliseconds or more: single calls, timed one by one."""
    function()
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < least or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        function()
        taken.append(time.perf_counter() - before)
    return taken
