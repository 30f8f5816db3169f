# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001  the times sign and the dash are meant
"""The benchmark as one self-contained page: the chart, tables by question, what is lost, every row,
method and promises."""

from __future__ import annotations

from html import escape
from typing import Any

import chart
import questions
import targets

Result = dict[str, Any]

STYLE = """
:root { color-scheme: light dark; --ours: #1f7a5c; --peer: #8a94a6; --floor: #d7a13b; --grid: #8884; --bad: #c0392b; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.4rem; } h3 { margin: 1.6rem 0 .3rem; font-size: 1rem; }
.lead { opacity: .8; margin-top: .2rem; }
.bar { display: grid; grid-template-columns: 15rem 1fr 12rem; gap: .6rem; align-items: center; font-size: .88rem; }
.bar > :first-child { text-align: right; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.bar i { display: block; height: .85rem; min-width: 2px; border-radius: 2px; background: var(--peer); }
.ours i { background: var(--ours); } .ours { font-weight: 600; } .floor i { background: var(--floor); }
.bar > :last-child { font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar small { opacity: .7; font-weight: 400; }
.absent { opacity: .55; }
.tag { font-size: .75rem; border-radius: 1rem; padding: .1rem .6rem; margin-left: .5rem; border: 1px solid;
  font-weight: 400; }
@media (prefers-color-scheme: dark) { :root { --ours: #35b58b; --bad: #ef6b5c; --floor: #e3b75c; } }
.first { color: var(--ours); } .behind { color: var(--bad); } .parity { color: var(--floor); }
.why { margin: .1rem 0 .4rem; font-size: .88rem; border-left: 3px solid var(--bad); padding-left: .6rem; }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
td, th { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--grid); }
td.missed { color: var(--bad); font-weight: 600; }
.narrow { overflow-x: auto; } .narrow table { margin: .6rem 0 1.2rem; max-width: 44rem; } .narrow small { opacity: .7; }
caption { text-align: left; font-weight: 600; } .narrow td { vertical-align: top; font-variant-numeric: tabular-nums; }
.chart { width: 100%; height: auto; max-width: 40rem; }
details { margin: 1.4rem 0; } summary { cursor: pointer; font-weight: 600; }
code { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; }
  .bar { grid-template-columns: 1fr auto; row-gap: 0; margin-bottom: .3rem; } .bar > :first-child { text-align: left; }
  .bar i { grid-column: 1 / -1; grid-row: 2; height: .5rem; } td, th { padding: .2rem .3rem; }
}
"""
GROUPS = {
    "in": "Into C++",
    "out": "Out of C++",
    "there and back": "There and back",
    "kernel call": "A call with three tensors",
    "operators": "One function as an operator",
    "Python": "From Python alone",
    "published": "What pyo3-dlpack publishes, measured again",
    "sizes": "From 4 kB to 1 GB",
    "dims": "By number of dimensions",
    "a user's day": "Whole calls through the binders",
    "growth": "By how many there are: types, elements, tensors, bytes",
    "threads": "Several threads",
    "memory": "Memory added",
    "allocations": "Allocations per exchange, Python objects included",
    "instructions": "Instructions per exchange",
    "footprint": "Compile time and module size",
}


def amount(result: Result) -> float | None:
    return result["ns"] if result.get("ns") is not None else result.get("value")


def text_of(result: Result) -> str:
    if result.get("ns") is None:
        return f"{result['value']:,.4g} {result['unit']}"
    ns = result["ns"]
    return f"{ns:,.1f} ns" if ns < 100 else f"{ns:,.0f} ns" if ns < 1e5 else f"{ns / 1e6:,.2f} ms"


def spread(result: Result) -> str:
    """The noise of a row: where the median of its turns lies."""
    if not result.get("median_95"):
        return ""
    low, high = result["median_95"]
    return f"median of the turns, 95 %: {low:,.1f} to {high:,.1f} ns"


def bar(result: Result, longest: float) -> str:
    library, version = result["library"], result.get("version") or ""
    figure = amount(result)
    name = (
        f"<span title='{escape(library)} {escape(version)}'>{escape(library)} <small>{escape(version)}</small></span>"
    )
    if figure is None:
        return f"<div class='bar absent'>{name}<small>{escape(result.get('why_not', ''))}</small><span>–</span></div>"
    kind = "ours" if library.startswith("isthmus") else "floor" if library == "floor" else ""
    ratio = f" <small>{result['ratio_to_floor']:.2f} ×</small>" if result.get("ratio_to_floor") else ""
    published = f" <small>(published {result['published_ns']:,} ns)</small>" if "published_ns" in result else ""
    title = escape("; ".join(filter(None, (result.get("note", ""), spread(result)))))
    width = 100 * figure / longest if longest else 0
    filled = f"<i style='width:{width:.2f}%'></i>"
    return (
        f"<div class='bar {kind}' title='{title}'>{name}{filled}<span>{text_of(result)}{ratio}{published}</span></div>"
    )


def row_html(row: str, results: list[Result]) -> str:
    members = sorted((r for r in results if r["row"] == row), key=lambda r: (amount(r) is None, amount(r) or 0))
    longest = max((amount(r) or 0 for r in members), default=0)
    standing = targets.standing(results, row)
    tag = f"<span class='tag {standing}'>{standing}</span>" if standing else ""
    if targets.in_doubt(results, row):
        tag += "<span class='tag doubt' title='the 95 % intervals of the medians overlap'>in doubt</span>"
    why = (
        f"<p class='why'>{escape(targets.REASONS[row])}</p>" if standing == "behind" and row in targets.REASONS else ""
    )
    return f"<h3>{escape(row)}{tag}</h3>{why}" + "".join(bar(r, longest) for r in members)


def page(results: list[Result], environment: dict[str, Any]) -> str:
    rows = list(dict.fromkeys(r["row"] for r in results))
    group_of = {r["row"]: r["group"] for r in results}
    standings = {row: targets.standing(results, row) for row in rows}
    lost = [row for row in rows if standings[row] == "behind"]
    count = {kind: sum(s == kind for s in standings.values()) for kind in ("first", "parity", "behind")}
    checked = sorted(targets.check(results), key=lambda t: t.holds)
    load = f", load {environment['load']:.1f}" if environment.get("load") is not None else ""
    machine = (
        f"{environment['cpu']}, {environment['cores']} cores{load}; Python {environment['python']}, "
        f"{environment['system']}"
    )
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Isthmus: the benchmark</title><style>{STYLE}</style><h1>What an exchange costs</h1>",
        (
            "<p class='lead'>A tensor goes from Python to C++, or from C++ to Python, and its elements stay where they "
            "are. "
        ),
        "What remains is the work of the library between them.</p>",
        chart.svg(results),
        f"<p>Of the {sum(count.values())} rows with another library, Isthmus is ",
        f"<b class='first'>first in {count['first']}</b>, ",
        f"<b class='parity'>equal in {count['parity']}</b> (within 5 %) and ",
        f"<b class='behind'>behind in {count['behind']}</b>.</p>",
        questions.html(results),
    ]
    if lost:
        parts.append("<h2>Where is another library ahead?</h2>" + "".join(row_html(row, results) for row in lost))
    parts.append(
        "<h2>Every row</h2><p>Shorter is faster. <b style='color:var(--floor)'>floor</b> is C written by hand for "
        "that one "
    )
    parts.append("exchange, with the same checks; the × is the ratio to it.</p>")
    for group in dict.fromkeys([*GROUPS, *group_of.values()]):
        title = GROUPS.get(group, group)
        members = [row for row in rows if group_of[row] == group and row not in lost]
        if members:
            bars = "".join(row_html(row, results) for row in members)
            parts.append(f"<details><summary>{title} ({len(members)})</summary>{bars}</details>")
    parts.append(
        f"<h2>How it was measured</h2><p>{escape(machine)}. One run, all libraries in turn; the least of the turns, "
        "with the time of an empty call subtracted. <a href='method.md'>The method</a> has the rest.</p>"
    )
    if checked:
        holds = sum(t.holds for t in checked)
        parts.append(
            f"<h2>What Isthmus promises</h2><p>{holds} of {len(checked)} hold in this run.</p><details><summary>"
        )
        parts.append(
            "The promises</summary><div class='narrow'><table>"
            "<tr><th></th><th>row</th><th>expected</th><th>found</th></tr>"
        )
        for t in checked:
            verdict = "<td>holds</td>" if t.holds else "<td class='missed'>missed</td>"
            parts.append(
                f"<tr>{verdict}<td>{escape(t.what)}</td><td>{escape(t.wanted)}</td><td>{escape(t.got)}</td></tr>"
            )
        parts.append("</table></div></details>")
    return "\n".join(parts) + "</html>\n"
