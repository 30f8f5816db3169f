"""Exceptions that no error of the library may hide, and arguments whose own code raises one."""

from __future__ import annotations

KINDS: list[type[BaseException]] = [KeyboardInterrupt, SystemExit, MemoryError]


def key(kind: type[BaseException]) -> str:
    """One that cannot be shown."""

    class Key(str):
        def __repr__(self) -> str:
            raise kind

    return Key("a")


def number(kind: type[BaseException]) -> object:
    class Number:
        def __index__(self) -> int:
            raise kind

    return Number()
