"""run_case.py DRIVER LIBRARY CASE runs one case; run_case.py lists them all, a line each: driver, name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import cases
import cases_capture  # noqa: F401  (these register their cases)
import cases_export  # noqa: F401
import cases_import  # noqa: F401
import cases_memory  # noqa: F401
import cases_operators  # noqa: F401
import cases_torch  # noqa: F401
from driver import Driver

NEEDS_MORE = 77

if __name__ == "__main__":
    if len(sys.argv) == 1:
        for name, (_, drivers) in cases.CASES.items():
            print("\n".join(f"{driver} {name}" for driver in drivers))
        sys.exit()
    kind, library, name = sys.argv[1:]
    driver = Driver("rocm" if kind == "rocm" else "cuda", library)
    try:
        cases.CASES[name][0](driver)
    except cases.NeedsMore as missing:
        print(missing)
        sys.exit(NEEDS_MORE)
    driver.check()
