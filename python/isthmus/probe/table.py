"""The probe's report as a table of text, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from typing import Any

WIDTH = 100
_TITLES = ("framework", "version", "way in", "memory", "ns", "memory", "ns", "back")


def memory_of(part: dict[str, Any] | None) -> str:
    """What became of the memory, in two words: "shared, ro"."""
    if not part:
        return "-"
    if "error" in part:
        return "error"
    if not part["shared"]:
        return "would copy" if "reason" in part else "COPIED"
    return "shared" + {True: " rw", False: " ro", None: ""}[part.get("writable")]


def cost_of(part: dict[str, Any] | None) -> str:
    return f"{part['ns']:,.0f}" if part and "ns" in part else "-"


def way_of(row: dict[str, Any]) -> str:
    """The way in that was taken; where there was none to take, what is the matter with the framework."""
    if "way" in (row.get("in") or {}):
        return str(row["in"]["way"])
    return {"absent": "not installed", "unusable": "not usable here"}.get(row["status"], str(row["status"]))


def back_of(part: dict[str, Any] | None) -> str:
    return {True: "same", False: "other"}.get((part or {}).get("same"), "-")  # type: ignore[arg-type]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    came, left = row.get("in"), row.get("out")
    return (
        row["name"],
        row["version"] or "-",
        way_of(row),
        memory_of(came),
        cost_of(came),
        memory_of(left),
        cost_of(left),
        back_of(row.get("back")),
    )


def notes_of(row: dict[str, Any]) -> list[str]:
    """What the cells have no room for."""
    notes = []
    if row["status"] not in ("ok", "absent"):
        notes.append(row["reason"] if row["status"] == "unusable" else f"{row['status']}: {row['reason']}")
    reason = (row.get("out") or {}).get("reason")
    if reason:
        notes.append(reason)
    return notes


def text_table(report: dict[str, Any]) -> str:
    rows = [_TITLES, *(_cells(row) for row in report["frameworks"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_TITLES))]
    right = {4, 6}

    def line(cells: tuple[str, ...]) -> str:
        padded = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(padded).rstrip()

    # Over the columns of each direction, its name.
    start_in = sum(widths[:2]) + 4
    start_out = sum(widths[:5]) + 10
    start_back = sum(widths[:7]) + 14
    head = f"{'':{start_in}}{'into isthmus':{start_out - start_in}}{'out of isthmus':{start_back - start_out}}".rstrip()
    out = [
        f"isthmus {report['isthmus']}, Python {report['python']}, {report['machine']}; {report['elements']:,} elements; "
        "ns per call from Python",
        "",
        head,
        line(_TITLES),
        line(tuple("-" * w for w in widths)),
        *map(line, rows[1:]),
    ]
    notes = [(row["name"], note) for row in report["frameworks"] for note in notes_of(row)]
    if notes:
        out.append("")
    for name, note in notes:
        out += textwrap.wrap(f"{name}: {note}", WIDTH, subsequent_indent="    ", break_long_words=False)
    out += [
        "",
        "shared: the same address on both sides; rw: it may be written, ro: read-only; same: an array that",
        "came from the framework goes back as the very object.",
    ]
    return "\n".join(out)
