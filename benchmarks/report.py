# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001  the times sign and the dash are meant
"""What a run says: tables in the terminal, the files of docs/benchmark, and the README's sentences about them.

Usage:
    benchmarks/report.py [DIR]    makes the page of docs/benchmark, or of DIR, again from the figures that are stored
                                  there; of docs/benchmark the README's sentences too
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import chart
import page
import targets

Result = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "benchmark"


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
    if out.resolve() == DOCS:
        write_readme(results, ROOT / "README.md")
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


def microseconds(ns: float) -> str:
    return f"{ns / 1000:.1f}" if ns >= 1000 else f"{ns / 1000:.2f}"


def write_readme(results: list[Result], readme: Path) -> None:
    """The text of the README's picture, and the sentence below it, of the same figures as the picture."""
    ours = {row: libraries[targets.OURS] for row, libraries in targets.by_library(results).items()
            if targets.OURS in libraries}  # fmt: skip
    member = {r["library"]: chart.shown(r["ns"]) for r in chart.members_of(results, "torch → C++, owned")}
    picture = (
        f"![One exchange: a PyTorch tensor into C++ takes Isthmus {member[targets.OURS]}, PyTorch's C++ API "
        f"{member['torch/extension.h']}](docs/benchmark/exchange.svg)"
    )
    into = [ours[f"{framework} → C++, owned"] for framework in ("numpy", "torch")]
    out = [ours[f"C++ → {framework}"] for framework in ("numpy", "torch", "jax")]
    sentence = (
        f"An exchange costs the same at every size: {microseconds(into[0])} µs from NumPy into C++ and\n"
        f"{microseconds(into[1])} from PyTorch; {microseconds(out[0])} µs from C++ to NumPy, {microseconds(out[1])} to "
        f"PyTorch and {microseconds(out[2])} to JAX."
    )
    text = readme.read_text()
    for pattern, new in ((r"!\[One exchange: [^\]]*\]\([^)]*\)", picture),
                         (r"An exchange costs the same at every size: [^;]*;[^;]* to JAX\.", sentence)):  # fmt: skip
        text, count = re.subn(pattern, lambda _, new=new: new, text)
        if count != 1:
            raise SystemExit(f"{readme}: {count} places for {new!r}")
    readme.write_text(text)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    write_page(folder)
    if folder.resolve() == DOCS:
        write_readme(json.loads((folder / "results.json").read_text()), ROOT / "README.md")
