"""Objects of a thread that has ended. A living thread that made an object is the one that ends it where there is no
GIL, later and in the middle of whatever it does; what belongs to no thread ends at once where its last reference is
dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments) as a thread of its own calls it, which has ended when this returns."""
    returned: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(function(*arguments))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned.pop()
