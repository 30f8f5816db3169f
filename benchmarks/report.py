# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001  the times sign and the dash are meant
"""What a run says: tables in the terminal, and the files of docs/benchmark.

Usage:
    benchmarks/report.py [DIR]    makes the page of docs/benchmark, or of DIR, again from the figures that are stored
                                  there
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import chart
import page
import targets

Result = dict[str, Any]


def figure(result: Result) -> str:
    if result.get("why_not"):
        return f"– ({result['why_not']})"
    return page.text_of(result)


def show(results: list[Result]) -> None:
    for row, group in groupby(results, key=lambda r: r["row"]):
        print(f"\n{row}{'  (in doubt: the intervals overlap)' if targets.in_doubt(results, row) else ''}")
        for r in sorted(
            group, key=lambda r: (r.get("ns") is None and r.get("value") is None, r.get("ns") or r.get("value") or 0)
        ):
            ratio = f"{r['ratio_to_floor']:8.2f} ×" if r.get("ratio_to_floor") else " " * 10
            name = f"{r['library']} {r['version']}".strip()
            low, high = r.get("median_95") or (None, None)
            noise = f"{low:>9,.0f} to {high:,.0f}" if low is not None else ""
            print(f"  {name:<40} {figure(r):>16} {ratio} {noise:<22} {r.get('note', '')}".rstrip())


def show_targets(results: list[Result]) -> None:
    """What was promised, the missed first."""
    checked = sorted(targets.check(results), key=lambda target: target.holds)
    if checked:
        print(f"\ntargets: {sum(target.holds for target in checked)} of {len(checked)} hold")
    for target in checked:
        print(f"  {'holds ' if target.holds else 'MISSED'}  {target.what}: {target.wanted}; {target.got}")


def write(results: list[Result], environment: dict[str, Any], out: Path) -> None:
    """The figures (results.json, environment.json), and what is made of them: the page and the pictures."""
    out.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in results)
    (out / "results.json").write_text(f"[\n{lines}\n]\n")
    (out / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    write_page(out)
    try:
        import pictures
    except ImportError as why:
        print(f"no pictures: {why}")
        return
    pictures.draw(results, out)


def write_page(out: Path) -> None:
    """index.html and exchange.svg of the figures that are stored in a folder."""
    results = json.loads((out / "results.json").read_text())
    environment = json.loads((out / "environment.json").read_text())
    (out / "index.html").write_text(page.page(results, environment))
    (out / "exchange.svg").write_text(chart.svg(results) + "\n")


if __name__ == "__main__":
    write_page(
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "docs" / "benchmark"
    )
