# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001  the times sign and the dash are meant
"""What Isthmus promises, checked against the run; and why a row is lost where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import footprint
import many_functions

Result = dict[str, Any]
OURS = "isthmus"
HEADER_ONLY = "isthmus header-only"
WITH_NANOBIND = "isthmus with nanobind"
# Hand-written for one exchange, to see what is possible: no library that one could use.
BOUNDS = {"floor", "stable shims in C", "exchange API in C", "libtorch in C++"}
# Two libraries closer than this are at parity: the machine moves more than that between two runs.
PARITY = 1.05

# A row where another library, or the floor's own promise, is ahead of us: where the difference is.
REASONS = {
    "torch → C++, borrowed": (
        "With libtorch linked the pointer is read in place; torch/extension.h asks neither for the negative and "
        "conjugate bit nor for requires_grad. Without these questions the bytes may not be the values."
    ),
    "torch → C++, owned": (
        "The same questions as for borrowing, which torch/extension.h does not ask, and a block of our own for sizes "
        "and strides, which torch may change under a handle that outlives the call."
    ),
    "torch: f(x, y, out)": (
        "torch/extension.h is compiled against libtorch and asks nothing about lazy bits or gradients."
    ),
    "torch: there and back": (
        "torch/extension.h is compiled against libtorch: it neither asks for lazy bits nor makes a framework-neutral "
        "handle."
    ),
    "numpy → C++, owned": (
        "The handle of pybind11 and rust-numpy is the PyObject itself, for NumPy alone: one reference. Ours is "
        "neutral, and keeps sizes and strides of its own in one small block; malloc and free are half of the "
        "difference (callgrind)."
    ),
    "numpy: there and back": (
        "A round trip in pybind11 and rust-numpy is one reference to the PyObject. Ours goes through the owning, "
        "framework-neutral handle, whose block is allocated and freed."
    ),
    "C++ → torch": "Compiled against libtorch, an at::Tensor is made and wrapped without the checks of the C shims.",
    "C++ → jax": (
        "Nearly all is JAX's own Python; we also ask the new array for its address, to be sure that JAX did not copy."
    ),
    "C++ → tensorflow": "Nearly all is TensorFlow's own from_dlpack; what we add is a function call through Python.",
}


def by_library(results: list[Result]) -> dict[str, dict[str, float]]:
    """row → library → figure (ns, or the value of another unit)."""
    rows: dict[str, dict[str, float]] = {}
    for r in results:
        figure = r["ns"] if r.get("ns") is not None else r.get("value")
        if figure is not None:
            rows.setdefault(r["row"], {})[r["library"]] = figure
    return rows


@dataclass
class Target:
    what: str
    wanted: str
    got: str
    holds: bool


def check(results: list[Result]) -> Iterator[Target]:
    rows = by_library(results)

    def at_most(row: str, factor: float, other: str = "floor", plus: float = 0.0, ours: str = OURS) -> Iterator[Target]:
        mine, theirs = rows.get(row, {}).get(ours), rows.get(row, {}).get(other)
        if mine is not None and theirs is not None:
            limit = factor * theirs + plus
            extra = f" + {plus:g} ns" if plus else ""
            yield Target(
                row,
                f"{ours} ≤ {factor:g} × {other}{extra}",
                f"{mine / theirs:.2f} × ({mine:,.4g} against {theirs:,.4g})",
                mine <= limit,
            )

    def ahead(row: str, factor: float, other: str) -> Iterator[Target]:
        mine, theirs = rows.get(row, {}).get(OURS), rows.get(row, {}).get(other)
        if mine is not None and theirs is not None:
            yield Target(row, f"{factor:g} × ahead of {other}", f"{theirs / mine:.2f} ×", theirs >= factor * mine)

    def below(row: str, limit: float) -> Iterator[Target]:
        mine = rows.get(row, {}).get(OURS)
        if mine is not None:
            yield Target(row, f"≤ {limit:g} ns", f"{mine:.1f} ns", mine <= limit)

    borrowed, owned = "torch → C++, borrowed", "torch → C++, owned"
    yield from at_most(borrowed, 1.35, "stable shims in C")
    yield from at_most(owned, 1.35, "stable shims in C")
    yield from at_most(borrowed, 1.25, "exchange API in C", 40)
    yield from at_most(owned, 1.25, "exchange API in C", 40)
    for peer, factor in (("tvm-ffi", 1.7), ("tvm_ffi.from_dlpack", 1.7), ("dlpark", 1.7), ("nanobind", 15)):
        yield from ahead(borrowed, factor, peer)
    yield from at_most("numpy → C++, borrowed", 2)
    yield from ahead("numpy → C++, borrowed", 1, "rust-numpy")
    yield from at_most("jax → C++, borrowed", 1.15)
    for framework in ("torch", "numpy", "jax"):
        b, o = (
            rows.get(f"{framework} → C++, borrowed", {}).get(OURS),
            rows.get(f"{framework} → C++, owned", {}).get(OURS),
        )
        if b is not None and o is not None:
            yield Target(f"{framework}: owning costs", "≤ 40 ns over borrowing", f"{o - b:.1f} ns", o - b <= 40)
    yield from at_most("C++ → torch", 1.15, "exchange API in C")
    yield from at_most("C++ → numpy", 1.3)
    yield from below("C++ → capsule", 90)
    yield from below("the same object back", 20)
    yield from ahead("C++ → torch", 4, "nanobind")
    yield from ahead("C++ → numpy", 4, "nanobind")
    for row in rows:
        for peer in ("pyo3-dlpack", "dlpark"):
            if not row.startswith("published"):
                yield from ahead(row, 1, peer)
                yield from ahead(row, 1, f"{peer} + torch.from_dlpack")
    for kind in ("numpy → C++", "torch → C++", "C++ → numpy", "C++ → torch"):
        # The floor copies nothing either: in the same turns, what grows is the ratio to it.
        sized = [rows.get(f"{kind}, {size}", {}) for size in ("4 kB", "1 MB", "64 MB", "1 GB")]
        sized = [row for row in sized if {OURS, "floor"} <= row.keys()]
        ratios = [row[OURS] / row["floor"] for row in sized]
        if len(ratios) > 1:
            least, most = min(row[OURS] for row in sized), max(row[OURS] for row in sized)
            yield Target(
                f"{kind}, 4 kB to 1 GB",
                "flat beside the floor",
                f"{least:.0f} to {most:.0f} ns, {min(ratios):.2f} to {max(ratios):.2f} × floor",
                max(ratios) <= 1.25 * min(ratios),
            )
    for row in rows:
        if row.startswith("memory") and OURS in rows[row]:
            yield Target(row, "no memory added", f"{rows[row][OURS]:g} MiB", rows[row][OURS] <= 1)
        if row.startswith("allocations") and {OURS, "floor"} <= rows[row].keys():
            more = rows[row][OURS] - rows[row]["floor"]
            yield Target(
                row, "at most one beyond the floor's", f"{rows[row][OURS]:g} against {rows[row]['floor']:g}", more <= 1
            )
    yield from at_most(footprint.TIME_ROW, 1.15, "nanobind")
    yield from at_most(footprint.TIME_ROW, 1.25, "nanobind", ours=WITH_NANOBIND)
    for row, library, limit, unit in (
        (footprint.TIME_ROW, HEADER_ONLY, 6, "s"),
        (footprint.SIZE_ROW.format("-O2"), OURS, 300, "kB"),
    ):
        found = rows.get(row, {}).get(library)
        if found is not None:
            yield Target(f"{row}, {library}", f"≤ {limit} {unit}", f"{found:.3g} {unit}", found <= limit)
    yield from at_most(many_functions.OWN_TIME, 1.15, "nanobind")
    yield from at_most(many_functions.OWN_TEXT, 1, "nanobind")


def standing(results: list[Result], row: str) -> str:
    """'first', 'parity', 'behind', or '' where there is nobody to compare with. The floor is no competitor."""
    figures = {r["library"]: r["ns"] for r in results if r["row"] == row and r.get("ns") is not None}
    peers = [ns for library, ns in figures.items() if library not in BOUNDS and not library.startswith(OURS)]
    if OURS not in figures or not peers:
        return ""
    ratio = figures[OURS] / min(peers)
    return "first" if ratio < 1 / PARITY else "parity" if ratio <= PARITY else "behind"


def in_doubt(results: list[Result], row: str) -> bool:
    """Whether the 95 % intervals of our median and of the fastest peer's overlap:
    another run may order them otherwise."""
    measured = {r["library"]: r for r in results if r["row"] == row and r.get("median_95")}
    peers = [r for library, r in measured.items() if library not in BOUNDS and not library.startswith(OURS)]
    if OURS not in measured or not peers:
        return False
    (low, high), (least, most) = measured[OURS]["median_95"], min(peers, key=lambda r: r["ns"])["median_95"]
    return bool(low <= most and least <= high)
