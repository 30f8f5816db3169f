# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001  the times sign is meant
"""The benchmark's answers as short tables, one for each question that a reader comes with."""

from __future__ import annotations

from html import escape
from typing import Any

import targets

Result = dict[str, Any]

#: Framework → its name, and what is exchanged → the row.
FRAMEWORKS = {
    "torch": "PyTorch", "numpy": "NumPy", "jax": "JAX", "tensorflow": "TensorFlow", "paddle": "Paddle",
}  # fmt: skip
EXCHANGES = {
    "into C++, for a call": "{} → C++, borrowed",
    "into C++, to keep": "{} → C++, owned",
    "in, and the same object back": "{}: there and back",
    "a result out of C++": "C++ → {}",
    "a call with three": "{}: f(x, y, out)",
}
SAFETY = {
    "PyTorch in, for a call": "torch → C++, borrowed",
    "PyTorch in, to keep": "torch → C++, owned",
    "PyTorch out": "C++ → torch",
    "NumPy in, for a call": "numpy → C++, borrowed",
    "NumPy in, to keep": "numpy → C++, owned",
    "NumPy out": "C++ → numpy",
}
SIZES = ("4 kB", "1 MB", "64 MB", "1 GB")
SIZED = {
    "NumPy in": "numpy → C++, {}",
    "NumPy out": "C++ → numpy, {}",
    "PyTorch in": "torch → C++, {}",
    "PyTorch out": "C++ → torch, {}",
}
BUILDING = {
    "seconds for a small file": "compile time of one small file",
    "kB of its module": "size of its module at -O2, stripped",
}
BUILDERS = {"isthmus": "library", "isthmus header-only": "header-only", "nanobind": "nanobind", "pybind11": "pybind11"}

Figures = dict[str, dict[str, float]]


def shown(ns: float | None) -> str:
    if ns is None:
        return "–"
    return f"{ns:.0f} ns" if ns < 9_950 else f"{ns / 1e3:.0f} µs"


def compared(ours: float, other: float) -> str:
    if max(ours, other) <= targets.PARITY * min(ours, other):
        return "<span class='parity'>equal</span>"
    kind, ratio, word = ("first", other / ours, "faster") if ours < other else ("behind", ours / other, "slower")
    return f"<span class='{kind}'>{ratio:{'.1f' if ratio >= 1.2 else '.2f'}} × {word}</span>"


def table(title: str, heads: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='narrow'><table><caption>{title}</caption><tr>{head}</tr>{body}</table></div>"


def of_framework(framework: str, figures: Figures) -> str:
    rows = []
    for what, pattern in EXCHANGES.items():
        libraries = figures.get(pattern.format(framework), {})
        ours = libraries.get(targets.OURS)
        if ours is None:
            continue
        others = {
            name: ns
            for name, ns in libraries.items()
            if name not in targets.BOUNDS and not name.startswith(targets.OURS)
        }
        best = min(others, key=lambda name: others[name], default=None)
        other = f"{shown(others[best])} <small>{escape(best)}</small>" if best else "<small>none does it</small>"
        rows.append([what, shown(ours), other, compared(ours, others[best]) if best else ""])
    return table(FRAMEWORKS[framework], ["", "Isthmus", "fastest other", "Isthmus is"], rows)


def of_safety(figures: Figures) -> str:
    rows = []
    for what, row in SAFETY.items():
        libraries = figures.get(row, {})
        if targets.OURS in libraries and "floor" in libraries:
            rows.append([what, *[shown(libraries.get(name)) for name in (targets.OURS, "floor", "exchange API in C")]])
    return table("", ["", "Isthmus", "by hand, as safe", "by hand, unchecked"], rows)


def of_sizes(figures: Figures) -> str:
    rows = []
    for what, pattern in SIZED.items():
        times = [figures.get(pattern.format(size), {}).get(targets.OURS) for size in SIZES]
        if any(time is not None for time in times):
            rows.append([what, *map(shown, times)])
    return table("", ["", *SIZES], rows)


def growing(results: list[Result]) -> dict[str, list[tuple[int, float]]]:
    """What should not grow with a count: of each line the counts, and the ns of one."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if result.get("line"):
            lines.setdefault(result["line"], []).append((result["count"], result["ns"]))
    return lines


def of_growth(results: list[Result]) -> str:
    rows = [
        [escape(line), *[f"{shown(ns)} <small>{count:,}</small>" for count, ns in (points[0], points[-1])]]
        for line, points in growing(results).items()
    ]
    return table("", ["", "of few", "of many"], rows)


def of_building(figures: Figures) -> str:
    columns = {
        library: name
        for library, name in BUILDERS.items()
        if any(library in figures.get(r, {}) for r in BUILDING.values())
    }
    rows = [
        [what, *[f"{figures[row][library]:.3g}" if library in figures[row] else "–" for library in columns]]
        for what, row in BUILDING.items()
        if row in figures
    ]
    return table("", ["", *columns.values()], rows)


def html(results: list[Result]) -> str:
    figures = targets.by_library(results)
    frameworks = "".join(of_framework(framework, figures) for framework in FRAMEWORKS)
    return "".join(
        f"<h2>{question}</h2><p>{words}</p>{answer}"
        for question, words, answer in (
            ("Which is fastest for my framework?",
             "Beside the fastest of the other libraries for each exchange.", frameworks),
            ("What does safety cost?",
             "A tensor may hold bytes that are not its values (conjugate, negative, sparse), may be watched by "
             "autograd, may be read-only. Isthmus asks each time. <i>By hand, as safe</i> is C written for that one "
             "exchange with the same questions; <i>unchecked</i> is DLPack's exchange API in C, which asks none.",
             of_safety(figures)),
            ("Does the size matter?", "No: nothing touches the elements.", of_sizes(figures)),
            ("Does the count matter?",
             "The time of one: of array classes that are seen in turn, of tensors alive, of a list's elements. "
             "<a href='growth.png'>A picture</a> has the counts between.", of_growth(results)),
            ("What does it cost to build?",
             "One file with one function, at <code>-O2</code>. <i>Library</i> links <code>isthmus::python</code>, "
             "which is compiled once, as nanobind's library is.", of_building(figures)),
        )
        if answer
    )  # fmt: skip
