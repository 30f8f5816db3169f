"""The probe's report as one HTML page: a picture of the costs, and the table."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from .table import back_of, cost_of, memory_of, notes_of, way_of

_STYLE = """
:root { color-scheme: light dark; --in: #2a78b8; --out: #d9822b; --grid: #8886; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--grid); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; }
td.bad { color: #c0392b; font-weight: 600; }
td.note { font-size: .85em; opacity: .8; }
.table { overflow-x: auto; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: currentColor; }
svg .in { fill: var(--in); } svg .out { fill: var(--out); }
svg .copies { fill: none; stroke: currentColor; stroke-dasharray: 3 3; opacity: .6; }
svg line { stroke: var(--grid); }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } th, td { padding: .2rem .35rem; } td.note { min-width: 12rem; }
}
"""
_LEFT, _RIGHT, _ROW, _TOP = 120, 900, 46, 56


def _picture(rows: list[dict[str, Any]]) -> str:
    """Bars of what one exchange costs, on a logarithmic scale."""
    costs = [row[part]["ns"] for row in rows for part in ("in", "out") if "ns" in (row.get(part) or {})]
    if not costs:
        return ""
    low = 10.0
    decades = max(1, math.ceil(math.log10(max([*costs, 100]) / low)))

    def x(ns: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * math.log10(max(ns, low) / low) / decades

    height = _TOP + _ROW * len(rows) + 30
    parts = [
        f'<svg viewBox="0 0 1000 {height}" role="img" aria-label="Cost of an exchange with each framework">',
        f'<rect class="in" x="{_LEFT}" y="8" width="12" height="12"/><text x="{_LEFT + 18}" y="19">into isthmus</text>',
        f'<rect class="out" x="{_LEFT + 130}" y="8" width="12" height="12"/>'
        f'<text x="{_LEFT + 148}" y="19">out of isthmus</text>',
        f'<rect class="copies" x="{_LEFT + 280}" y="8" width="12" height="12"/>'
        f'<text x="{_LEFT + 298}" y="19">not shared</text>',
    ]
    for decade in range(decades + 1):
        at = x(low * 10**decade)
        label = ("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s")[min(decade, 8)]
        parts.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{_TOP - 16}" y2="{height - 26}"/>')
        parts.append(f'<text x="{at:.0f}" y="{height - 10}" text-anchor="middle">{label}</text>')
    for index, row in enumerate(rows):
        y = _TOP + _ROW * index
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 17}" text-anchor="end">{escape(row["name"])}</text>')
        for part, offset in (("in", -6), ("out", 12)):
            found = row.get(part) or {}
            if "ns" in found:
                kind = part if found["shared"] else "copies"
                width = max(x(found["ns"]) - _LEFT, 2)
                parts.append(
                    f'<rect class="{kind}" x="{_LEFT}" y="{y + offset}" width="{width:.0f}" height="15" rx="2"/>'
                )
                parts.append(f'<text x="{_LEFT + width + 6:.0f}" y="{y + offset + 12}">{found["ns"]:,.0f} ns</text>')
            else:
                parts.append(
                    f'<text x="{_LEFT + 6}" y="{y + offset + 12}" opacity=".7">{escape(memory_of(found))}</text>'
                )
    return "\n".join([*parts, "</svg>"])


def _table(rows: list[dict[str, Any]]) -> str:
    titles = ("framework", "version", "way in", "in: memory", "ns", "out: memory", "ns", "back", "")
    head = "".join(f"<th{' class=number' if t == 'ns' else ''}>{t}</th>" for t in titles)
    out = [f'<div class="table"><table>\n<tr>{head}</tr>']
    for row in rows:
        came, left = row.get("in"), row.get("out")
        cells = [escape(row["name"]), escape(row["version"] or "-"), escape(way_of(row))]
        tags = ["", "", ""]
        for part in (came, left):
            memory = memory_of(part)
            cells += [memory, cost_of(part)]
            tags += [" class=bad" if memory in ("COPIED", "error") else "", " class=number"]
        cells += [back_of(row.get("back")), escape("; ".join(notes_of(row)))]
        tags += ["", " class=note"]
        out.append("<tr>" + "".join(f"<td{tag}>{cell}</td>" for tag, cell in zip(tags, cells, strict=True)) + "</tr>")
    return "\n".join([*out, "</table></div>"])


def html_page(report: dict[str, Any]) -> str:
    """A page that needs nothing but itself."""
    rows = report["frameworks"]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>isthmus probe</title>
<style>{_STYLE}</style>
<h1>isthmus probe</h1>
<p>isthmus {escape(report["isthmus"])}, Python {escape(report["python"])}, {escape(report["machine"])};
{report["elements"]:,} elements; nanoseconds per call from Python, the call itself taken off, on a logarithmic
scale.</p>
{_picture([row for row in rows if row.get("in")])}
{_table(rows)}
<p>Shared: the same address on both sides. rw: it may be written; ro: read-only. Same: an array that came from the
framework goes back as the very object.</p>
</html>
"""
