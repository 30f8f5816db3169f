"""How many owners of C++ memory are gone."""

from __future__ import annotations

import gc

import isthmus_test_ext as ext


def gone() -> int:
    gc.collect()  # what earlier tests left in cycles is none of this one's
    return ext.owners()[1]
