"""Help for test suites."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ._live import live

__all__ = ["assert_no_live_tensors"]


@contextmanager
def assert_no_live_tensors(*, tracing: bool = True, collect: bool = True) -> Iterator[None]:
    """Fail with an AssertionError when tensors that were made inside are still alive at the end.

    tracing: report where each was made. collect: run the garbage collector first, so that cycles do not count as leaks.

    Use it as ``with assert_no_live_tensors(): ...`` or as ``@assert_no_live_tensors()`` over a test; for every test of
    a pytest suite::

        @pytest.fixture(autouse=True)
        def no_leaks():
            with isthmus.testing.assert_no_live_tensors():
                yield

    Tensors of other threads count as well. An exception from inside passes, and nothing is asserted then: its traceback
    keeps alive whatever it has seen.
    """
    was_enabled = live.enabled
    if not was_enabled:
        live.enable(tracing=tracing)
    before = {tensor.serial for tensor in live()}
    try:
        yield
        if collect:
            gc.collect()
        left = [tensor for tensor in live() if tensor.serial not in before]
    finally:
        if not was_enabled:
            live.disable()
    if left:
        listed = "\n".join(f"  {tensor}" for tensor in left)
        raise AssertionError(f"{len(left)} tensor{'s are' if len(left) != 1 else ' is'} still alive:\n{listed}")
