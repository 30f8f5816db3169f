"""Operators in eight threads at once, as an interpreter without the GIL runs them; with a GIL the same holds."""

from __future__ import annotations

import sys

import processes
import pytest


@pytest.mark.parametrize("attempt", range(3))
def test_calls_from_the_first_on(ext, attempt: int) -> None:
    code = f"""
import sys
import numpy as np
from at_once import check_no_gil, together

check_no_gil()
import {ext.__name__} as ext
check_no_gil()  # the module leaves it off
same = np.arange(12, dtype=np.float32).reshape(4, 3)
expected = ((same[:, None] - same[None]) ** 2).sum(-1)

def work(thread, _):
    for _ in range(500):
        own = same.astype(np.float64 if thread % 2 else np.float32)
        assert np.array_equal(ext.distance(same, same), expected)
        assert np.array_equal(ext.distance(own, own), expected)
        try:
            ext.distance(same, same[:, :2])
        except Exception as error:
            assert "distance" in str(error), error
        else:
            raise AssertionError("points of other dimensions were taken")

together(work)
"""
    processes.run_python(code, *sys.path, processes.SUPPORT)
