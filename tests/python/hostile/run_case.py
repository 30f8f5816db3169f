"""Runs the cases named on the command line; without one, lists them all."""

from __future__ import annotations

import sys

import cases
import cases_array_interface  # noqa: F401  (these register their cases)
import cases_buffer  # noqa: F401
import cases_capsule  # noqa: F401
import cases_descriptor  # noqa: F401
import cases_exchange_api  # noqa: F401
import cases_producer  # noqa: F401

if __name__ == "__main__":
    for name in sys.argv[1:]:
        cases.CASES[name]()
        cases.collect()
        cases.no_exception_left()
    if len(sys.argv) == 1:
        print("\n".join(cases.CASES))
