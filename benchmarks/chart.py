# SPDX-License-Identifier: Apache-2.0
"""What one exchange costs by library, on one logarithmic scale: the first picture of the page, and the README's,
as SVG."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import targets

Result = dict[str, Any]

#: Row → what a newcomer calls it.
PANELS = {
    "torch → C++, owned": "A PyTorch tensor comes into C++",
    "numpy → C++, owned": "A NumPy array comes into C++",
    "C++ → torch": "Memory of C++ becomes a PyTorch tensor",
    "C++ → numpy": "Memory of C++ becomes a NumPy array",
}
#: Library → its name where the peer's own is the name of a function.
NAMES = {"pybind11 array": "pybind11", "torch/extension.h": "PyTorch's own (C++)", "isthmus": "Isthmus"}
#: Variants of a library of which another one is shown.
VARIANTS = {"pybind11 array_t", "rust-numpy read-only", "nanobind typed", "tvm_ffi.from_dlpack", "isthmus in Rust"}
MOST = 6  # bars of one panel
WIDTH, LABELS, VALUES, LINE, HEAD = 480, 168, 66, 22, 34
LEAST = 10.0  # nanoseconds at the left end of the bars

STYLE = """
.chart-page { fill: #ffffff; } .chart text { font: 13px system-ui, sans-serif; fill: #1b1f24; }
.chart .head { font-weight: 600; font-size: 14px; } .chart .quiet { fill: #59636e; font-size: 12px; }
.chart rect.peer { fill: #9aa4b2; } .chart rect.ours { fill: #1f7a5c; } .chart .mine { font-weight: 600; }
.chart line { stroke: #d5dae0; }
@media (prefers-color-scheme: dark) {
.chart-page { fill: #16191d; } .chart text { fill: #e8ebee; } .chart .quiet { fill: #a3adb8; }
.chart rect.peer { fill: #6b7684; } .chart rect.ours { fill: #35b58b; } .chart line { stroke: #333a42; }
}
"""


def shown(ns: float) -> str:
    return f"{ns:,.0f} ns" if ns < 1e4 else f"{ns / 1e3:,.0f} µs"


def members_of(results: list[Result], row: str) -> list[Result]:
    """Ours and the fastest peers, the fastest first; no lower bound, which is no library, and one variant of each."""
    timed = sorted((r for r in results if r["row"] == row and r.get("ns") is not None), key=lambda r: r["ns"])
    libraries = [r for r in timed if r["library"] not in targets.BOUNDS | VARIANTS]
    ours = [r for r in libraries if r["library"] == targets.OURS]
    return sorted([*ours, *[r for r in libraries if r not in ours][: MOST - len(ours)]], key=lambda r: r["ns"])


def panel(title: str, members: list[Result], longest: float, top: float) -> list[str]:
    lines = [f'<text class="head" x="8" y="{top + 20:.0f}">{escape(title)}</text>']
    for i, r in enumerate(members):
        y = top + HEAD + i * LINE
        width = (WIDTH - LABELS - VALUES) * max(math.log(r["ns"] / LEAST) / math.log(longest / LEAST), 0.01)
        ours = r["library"] == targets.OURS
        name = escape(
            NAMES.get(r["library"], r["library"].replace(" + torch.from_dlpack", "").replace(" + np.from_dlpack", ""))
        )
        text = '<text class="mine"' if ours else "<text"
        lines += [
            f'{text} x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{name}</text>',
            (
                f'<rect class="{"ours" if ours else "peer"}" x="{LABELS}" y="{y + 2}" width="{width:.1f}" height="14" '
                'rx="2"/>'
            ),
            f'{text} x="{LABELS + width + 6:.1f}" y="{y + 13}">{shown(r["ns"])}</text>',
        ]
    return lines


def svg(results: list[Result]) -> str:
    panels = [(title, members_of(results, row)) for row, title in PANELS.items()]
    panels = [(title, members) for title, members in panels if members]
    longest = max((r["ns"] for _, members in panels for r in members), default=LEAST * 10)
    top, lines = 40.0, []
    for title, members in panels:
        lines += panel(title, members, longest, top)
        top += HEAD + len(members) * LINE + 8
    height = round(top + 6)
    description = "; ".join(
        f"{title}: " + ", ".join(f"{NAMES.get(r['library'], r['library'])} {shown(r['ns'])}" for r in members)
        for title, members in panels
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(description)}">',
            f"<style>{STYLE}</style>",
            f'<rect class="chart-page" width="{WIDTH}" height="{height}" rx="6"/>',
            '<text class="quiet" x="8" y="22">Time of one exchange, logarithmic: shorter is faster</text>',
            *lines,
            "</svg>",
        ]
    )
