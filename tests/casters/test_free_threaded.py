"""Modules with casters in eight threads at once, as an interpreter without the GIL runs them;
with a GIL the same holds."""

from __future__ import annotations

import sys

import processes
import pytest

PREAMBLE = """
import gc, importlib, sys, weakref
import numpy as np
from at_once import FREE, THREADS, check_no_gil, together

check_no_gil()
ext = importlib.import_module({name!r})
check_no_gil()  # the module leaves it off
"""


def run(ext, code: str) -> None:
    processes.run_python(PREAMBLE.format(name=ext.__name__) + code, *sys.path, processes.SUPPORT)


@pytest.mark.parametrize("attempt", range(3))
def test_the_first_calls(ext, attempt: int) -> None:
    """Also the errors are translated from the first call on, whichever thread makes it."""
    run(
        ext,
        """
def work(thread, _):
    if thread % 2:
        assert ext.sum(np.ones((2, 3), np.float32)) == 6
    else:
        try:
            ext.fail()
        except BufferError as error:
            assert type(error).__module__ == "isthmus" and error.code == "needs_copy", type(error)
        else:
            raise AssertionError("no error came")

together(work)
""",
    )


@pytest.mark.parametrize("same", [True, False], ids=["the same array", "an array each"])
def test_views_and_overloads(ext, same: bool) -> None:
    run(
        ext,
        f"""
arrays = [np.ones((2, 3), np.float32)] * THREADS if {same} else [np.ones((2, 3), np.float32) for _ in range(THREADS)]
before = [sys.getrefcount(x) for x in arrays]

def work(thread, _):
    x, own = arrays[thread], np.zeros(3, np.float32)
    for k in range(2000):
        assert ext.sum(x) == 6
        assert ext.which(own) == "float32[:]" and ext.which(3) == "int"
        ext.fill_without_gil(own, k)
        assert own.tolist() == [k] * 3

together(work)
gc.collect()
assert [sys.getrefcount(x) for x in arrays] == before
""",
    )
