"""How the tensors that arrived in this process got their memory, counted."""

from __future__ import annotations

import itertools

#: shared: read in the engine's or the sender's memory. copy_on_write: the same, mapped privately, so that a write
#: stays here. inline: small, and came within the message. copied: the elements were copied on arrival.
NAMES = ("shared", "copy_on_write", "inline", "copied")

# Counted by next(), which needs no lock: a message may hold thousands of small arrays.
_counts = {name: itertools.count() for name in NAMES}


def count(name: str) -> None:
    next(_counts[name])


def counts() -> dict[str, int]:
    # The only way to look at one without counting: "count(5)".
    return {name: int(repr(counter)[6:-1]) for name, counter in _counts.items()}
