"""The registry of cases, and what most of them check. Every case runs in a process of its own: a crash is a failure."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import isthmus_test_ext as ext

CASES: dict[str, Callable[[], None]] = {}
BOTH = (ext.borrow, ext.own)


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Registers a function that raises when the outcome is not the expected one."""
    assert function.__name__ not in CASES, function.__name__
    CASES[function.__name__] = function
    return function


def register(name: str, function: Callable[[], None]) -> None:
    function.__name__ = name
    case(function)


def refused(code: str, call: Callable, *args, error: type = Exception, **options) -> Exception:
    """The call must fail with this code; the exception, which is always an isthmus.Error."""
    try:
        found = call(*args, **options)
    except ext.Error as exception:
        assert exception.code == code, f"expected {code}, got {exception.code}: {exception}"
        assert isinstance(exception, error), f"expected a {error.__name__}, got {type(exception).__mro__}"
        assert str(exception), "an error without a word"
        return exception
    raise AssertionError(f"expected {code}, but it was taken: {found}")


def without_memory(call: Callable, *args) -> None:
    """The call must raise the MemoryError that came from the producer, as it is."""
    try:
        found = call(*args)
    except MemoryError as exception:
        assert str(exception), "a MemoryError of another"
        return
    raise AssertionError(f"expected MemoryError, but it was taken: {found}")


def collect() -> None:
    for _ in range(3):
        gc.collect()


def expect(condition: bool, text: object) -> None:
    if not condition:
        raise AssertionError(str(text))


def no_exception_left() -> None:
    """A function that leaves an exception set shows at the next call of the C API that looks."""
    expect(sys.exc_info() == (None, None, None), sys.exc_info())
