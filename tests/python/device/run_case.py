"""run_case.py DRIVER LIBRARY CASE runs one case; run_case.py lists them all, a line each: driver, name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import cases
from driver import Driver

for file in sorted(Path(__file__).resolve().parent.glob("cases_*.py")):
    importlib.import_module(file.stem)  # which registers its cases

NEEDS_MORE = 77


def main(arguments: list[str]) -> None:
    if not arguments:
        for name, (_, drivers) in cases.CASES.items():
            print("\n".join(f"{driver} {name}" for driver in drivers))
        return
    kind, library, name = arguments
    driver = Driver("rocm" if kind == "rocm" else "cuda", library)
    try:
        cases.CASES[name][0](driver)
    except cases.NeedsMore as missing:
        print(missing)
        sys.exit(NEEDS_MORE)
    driver.check()


if __name__ == "__main__":
    main(sys.argv[1:])
