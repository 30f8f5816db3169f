"""The registry of cases: each is a function of a Driver, in a process of its own,
and raises when the outcome is another."""

from __future__ import annotations

from collections.abc import Callable

from driver import Driver

import isthmus_test_ext as ext

# By name: the function, and the drivers it is for.
CASES: dict[str, tuple[Callable[[Driver], None], tuple[str, ...]]] = {}


def case(*drivers: str) -> Callable:
    """Registers a function for these drivers: "cuda" and "rocm" are stand-ins, "torch" and what begins with it is that
    of CUDA with torch over it, and "gpu" is a real GPU's (CUDA)."""

    def register(function: Callable[[Driver], None]) -> Callable[[Driver], None]:
        add(function.__name__, function, *drivers)
        return function

    return register


def add(name: str, function: Callable[[Driver], None], *drivers: str) -> None:
    assert name not in CASES, name
    CASES[name] = (function, drivers or ("cuda", "rocm", "gpu"))


class NeedsMore(Exception):
    """This machine has too little for a case: two GPUs, say."""


def refused(code: str, kind: type, call: Callable, *arguments: object, **options: object) -> str:
    """The call must fail with this code; the words."""
    try:
        found = call(*arguments, **options)
    except ext.Error as error:
        assert error.code == code, f"expected {code}, got {error.code}: {error}"
        assert isinstance(error, kind), f"expected a {kind.__name__}: {type(error).__mro__}"
        return str(error)
    raise AssertionError(f"expected {code}, but it was taken: {found}")
