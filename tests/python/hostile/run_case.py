"""Runs the cases named on the command line; without one, lists them all."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import cases

for file in sorted(Path(__file__).resolve().parent.glob("cases_*.py")):
    importlib.import_module(file.stem)  # which registers its cases

if __name__ == "__main__":
    for name in sys.argv[1:]:
        cases.CASES[name]()
        cases.collect()
        cases.no_exception_left()
    if len(sys.argv) == 1:
        print("\n".join(cases.CASES))
