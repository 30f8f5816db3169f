# SPDX-License-Identifier: Apache-2.0
"""The rows that matter most, as PNGs for pages that cannot show HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import questions
from matplotlib.ticker import NullFormatter, ScalarFormatter

Result = dict[str, Any]
PICTURES = {
    "in.png": (
        "Into C++, nanoseconds per call (log scale, shorter is better)",
        ["torch → C++, borrowed", "numpy → C++, borrowed", "jax → C++, borrowed"],
    ),
    "out.png": (
        "Out of C++, nanoseconds per call (log scale, shorter is better)",
        ["C++ → torch", "C++ → numpy", "C++ → capsule"],
    ),
}
COLOURS = {"isthmus": "#1f7a5c", "floor": "#d7a13b"}
MOST = 8


def draw(results: list[Result], out: Path) -> None:
    for name, (title, rows) in PICTURES.items():
        figure, axes = plt.subplots(1, len(rows), figsize=(13, 3.6), layout="constrained")
        figure.suptitle(title, fontsize=11)
        for axis, row in zip(axes, rows, strict=True):
            members = sorted((r for r in results if r["row"] == row and r.get("ns") is not None), key=lambda r: r["ns"])
            kept = [r for r in members if r["library"] in COLOURS]
            for r in members:
                if r not in kept and len(kept) < MOST:
                    kept.append(r)
            kept.sort(key=lambda r: -r["ns"])
            labels = [r["library"] for r in kept]
            bars = axis.barh(labels, [r["ns"] for r in kept], color=[COLOURS.get(label, "#8a94a6") for label in labels])
            axis.bar_label(bars, [f"{r['ns']:,.0f}" for r in kept], padding=3, fontsize=8)
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(ScalarFormatter())
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_title(row, fontsize=10)
            axis.tick_params(labelsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            axis.margins(x=0.25)
        figure.savefig(out / name, dpi=110)
        plt.close(figure)
    if lines := questions.growing(results):
        draw_growth(lines, out / "growth.png")


def draw_growth(lines: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Nanoseconds of one over how many there are, a line for each axis."""
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", ylim=(1, 10_000), xlabel="how many there are", ylabel="ns of one (log scale)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)
