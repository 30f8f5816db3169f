"""How the calls of the sweep are made ready, for each table of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

#: Makes a call ready, with all the memory there is: what it returns is called without.
Make = Callable[[], Callable[[], Any]]


def prepared(make: Callable[[], Any], call: Callable[[Any], Any]) -> Make:
    """Of a call with what `make` makes ready for it."""
    return lambda: functools.partial(call, make())


def as_is(call: Callable[[], Any]) -> Make:
    """Of a call that nothing has to be made ready for."""
    return lambda: call
