# SPDX-License-Identifier: Apache-2.0
"""The tables that pyo3-dlpack publishes (its BENCHMARKS.md of 2026-05-30), measured again here beside Isthmus.

Published: on an Apple M3, with dlpark 0.7 and rust-numpy 0.28. Times of two machines are not comparable; the shape is:
flat against growing, and how far apart the libraries of one machine are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
from calls import DLPARK, OURS, PYO3_DLPACK, Call, Row
from peers import BUFFER_ELEMENTS, Peers

Result = dict[str, Any]

# row → library → nanoseconds as published
EXPORT = {
    "1K": {"pyo3-dlpack": 132, "dlpark": 134, "rust-numpy (copy)": 262},
    "1M": {"pyo3-dlpack": 3160, "dlpark": 2140, "rust-numpy (copy)": 98_600},
    "10M": {"pyo3-dlpack": 258, "dlpark": 210, "rust-numpy (copy)": 1_067_000},
}
IMPORT = {
    "1K": {"pyo3-dlpack": 191, "dlpark": 176},
    "1M": {"pyo3-dlpack": 2510, "dlpark": 2500},
    "10M": {"pyo3-dlpack": 246, "dlpark": 232},
}
PYTHON_IMPORT = {
    "1M": {"pyo3-dlpack": 492, "numpy.copy": 168_874, "torch.clone": 101_692},
    "10M": {"pyo3-dlpack": 537, "numpy.copy": 1_741_097, "torch.clone": 1_434_532},
    "100M": {"pyo3-dlpack": 520, "numpy.copy": 28_472_697, "torch.clone": 16_937_265},
}
ELEMENTS = {"1K": 1_000, "1M": 1_000_000, "10M": 10_000_000, "100M": 100_000_000}


def with_published(results: list[Result], published: dict[str, int]) -> list[Result]:
    for result in results:
        if result["library"] in published:
            result["published_ns"] = published[result["library"]]
    return results


def copies(
    name: str, functions: dict[str, Callable[[], object]], peers: Peers, published: dict[str, int], ours: float | None
) -> list[Result]:
    """What a copy costs instead, and how many of our exchanges that is."""
    results = []
    for library, function in functions.items():
        ns = min(harness.repeat_seconds(function)) * 1e9
        result: Result = {
            "row": name,
            "group": "published",
            "library": library,
            "version": peers.version(library),
            "ns": round(ns, 1),
            "ratio_to_floor": None,
        }
        if ours:
            result["note"] = f"a copy: {ns / ours:,.0f} of our exchanges"
        results.append(result)
    return with_published(results, published)


def all_results(
    peers: Peers, rounds: int, timed: Callable[[Row, Peers, int], list[Result]], say: Callable[[str], None]
) -> list[Result]:
    import numpy as np
    import torch

    results: list[Result] = []

    def least(measured: list[Result]) -> float | None:
        return next((r["ns"] for r in measured if r["library"] == OURS), None)

    rust = peers.get("rust-numpy")
    for size, published in EXPORT.items():
        name = f"published: export of {size} float32"
        say(name)
        peers.set_size(ELEMENTS[size])
        row = Row(
            name,
            "published",
            {
                OURS: Call(OURS, "to_capsule"),
                "pyo3-dlpack": Call(PYO3_DLPACK, "to_capsule"),
                "dlpark": Call(DLPARK, "to_capsule"),
            },
            {"x": None},
            floor=OURS,
        )
        measured = with_published(timed(row, peers, rounds), published)
        results += measured
        if rust is not None:
            results += copies(
                name, {"rust-numpy (copy)": lambda: rust.copy_to_numpy(None)}, peers, published, least(measured)
            )
    for size, published in IMPORT.items():
        name = f"published: import of {size} float32"
        say(name)
        peers.set_size(ELEMENTS[size])
        source = {"pyo3-dlpack": Call(PYO3_DLPACK, "own"), "dlpark": Call(DLPARK, "own")}
        row = Row(
            name,
            "published",
            {OURS: Call(OURS, "own"), **source},
            {"x": np.empty(ELEMENTS[size], np.float32)},
            floor=OURS,
        )
        results += with_published(timed(row, peers, rounds), published)
    peers.set_size(BUFFER_ELEMENTS)
    for size, published in PYTHON_IMPORT.items():
        name = f"published: import of {size} float32 beside a copy"
        say(name)
        x = np.zeros(ELEMENTS[size], np.float32)
        x += 1
        t = torch.from_numpy(x)
        row = Row(
            name,
            "published",
            {
                OURS: Call(OURS, "own"),
                "isthmus from torch": Call(OURS, "own", ("t",)),
                "pyo3-dlpack": Call(PYO3_DLPACK, "own"),
            },
            {"x": x, "t": t},
            floor=OURS,
        )
        measured = with_published(timed(row, peers, rounds), published)
        results += measured
        results += copies(name, {"numpy.copy": x.copy, "torch.clone": t.clone}, peers, published, least(measured))
    return results
