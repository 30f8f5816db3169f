"""Entries of an engine's table of types, replaced and put back exactly."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

_NONE = object()


def replace(table: MutableMapping[Any, Any], key: object, ours: object) -> Callable[[], None]:
    """Put `ours` under `key`; returns a function that puts back what was there, unless somebody has replaced ours
    since."""
    before = table.get(key, _NONE)
    table[key] = ours

    def undo() -> None:
        if table.get(key, _NONE) is not ours:
            return
        if before is _NONE:
            del table[key]
        else:
            table[key] = before

    return undo


def all_of(undo: list[Callable[[], None]]) -> Callable[[], None]:
    """One function that undoes all of it, the last first."""

    def undo_all() -> None:
        for one in reversed(undo):
            one()

    return undo_all
