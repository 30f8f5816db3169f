"""Waiting for what another thread does in its own time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Frameworks and threads give memory back a moment after the call that ended its use."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come to pass in {seconds} seconds"
        gc.collect()
        time.sleep(0.001)
