"""How the tensors that arrived in this process got their memory, counted."""

from __future__ import annotations

import threading

#: shared: read in the engine's or the sender's memory. copy_on_write: the same, mapped privately, so that a write
#: stays here. inline: small, and came within the message. copied: the elements were copied on arrival.
NAMES = ("shared", "copy_on_write", "inline", "copied")

_lock = threading.Lock()
_counts = dict.fromkeys(NAMES, 0)


def count(name: str) -> None:
    with _lock:
        _counts[name] += 1


def counts() -> dict[str, int]:
    with _lock:
        return dict(_counts)
