"""Entries of an engine's table of types, replaced and put back exactly."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

_NONE = object()


def replace(table: MutableMapping[Any, Any], key: object, make: Callable[[Any], Any]) -> Callable[[], None]:
    """Put `make(what is there, or None)` under `key`; returns a function that undoes it, unless it was replaced since."""
    before = table.get(key, _NONE)
    ours = make(None if before is _NONE else before)
    table[key] = ours

    def undo() -> None:
        if table.get(key, _NONE) is not ours:
            return
        if before is _NONE:
            del table[key]
        else:
            table[key] = before

    return undo
