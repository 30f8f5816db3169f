# SPDX-License-Identifier: Apache-2.0
"""What came of a story: one word, from what its process said and how it ended."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import Any

#: In the order of the table; "not counted" never reaches it.
WORDS = ("right", "wrong", "leak", "double free", "crash", "hang")
NOT_COUNTED = "not counted"


@dataclass(frozen=True)
class Verdict:
    word: str
    note: str = ""


class BrokenStory(Exception):
    """The story itself failed: nothing is said of the library."""


def of_import(must_refuse: bool, taken: bool, faithful: bool, released: int | None, wanted: int = 1) -> Verdict:
    """An import of one object. `faithful`: what was taken is what was offered; `released`: how often its producer got
    it back in the end, None where that cannot be seen."""
    if released is not None and released > wanted:
        return Verdict("double free", f"released {released} times")
    if must_refuse and taken:
        return Verdict("wrong", "taken")
    if taken and not faithful:
        return Verdict("wrong", "taken as something else")
    if released is not None and released < wanted:
        return Verdict("leak", "never released")
    if not must_refuse and not taken:
        return Verdict(NOT_COUNTED, "refused, which is its right")
    return Verdict("right")


def of_process(status: int, said: str, timed_out: bool) -> Verdict:
    """Of a process: its exit status as `subprocess` gives it (-N: ended by signal N),
    and the last report that it wrote."""
    if timed_out:
        return Verdict("hang", "not done in time")
    if status < 0:
        return Verdict("crash", signal.Signals(-status).name)
    reports = [line.removeprefix("REPORT ") for line in said.splitlines() if line.startswith("REPORT ")]
    if status or not reports:
        raise BrokenStory(f"exit status {status} without a verdict: {said[-2000:]}")
    return Verdict(**json.loads(reports[-1]))


def report(verdict: Verdict) -> str:
    """The line by which a story's process tells its verdict."""
    return "REPORT " + json.dumps({"word": verdict.word, "note": verdict.note})


def cell(verdicts: list[Verdict]) -> str:
    """A table's cell: the counts of each word that occurs."""
    counts: dict[str, Any] = {word: sum(v.word == word for v in verdicts) for word in WORDS}
    if len(verdicts) == 1 and verdicts[0].word in WORDS:
        return verdicts[0].word
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "–"  # noqa: RUF001
