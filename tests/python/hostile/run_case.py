"""Runs the cases named on the command line; without one, lists them all."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import cases

for file in sorted(Path(__file__).resolve().parent.glob("cases_*.py")):
    importlib.import_module(file.stem)  # which registers its cases


def main(names: list[str]) -> None:
    for name in names:
        cases.CASES[name]()
        cases.collect()
        cases.no_exception_left()
    if not names:
        print("\n".join(cases.CASES))


if __name__ == "__main__":
    main(sys.argv[1:])
