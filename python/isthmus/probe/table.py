"""The probe's report as a table: of text, as wide as the terminal and else at most 100 columns, or for rich."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from .._terminal import fitting_widths, terminal_width, text_lines

if TYPE_CHECKING:
    from rich.console import Group

WIDTH = 100
_TITLES = ("framework", "version", "way in", "memory", "ns", "memory", "ns", "back")
_RIGHT = {4, 6}  # the columns of numbers
_LEGEND = (
    "shared: the same address on both sides; rw: it may be written, ro: read-only; same: an array that "
    "came from the framework goes back as the very object."
)
#: The colours of what became of the memory, by its first word.
_STYLES = {"shared": "green", "would": "yellow", "COPIED": "bold red", "error": "bold red"}


def memory_of(part: dict[str, Any] | None) -> str:
    """How the memory arrived, in two words: "shared, ro"."""
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
    """The import path that was taken; without one, the reason."""
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
    """Notes that do not fit into the cells."""
    notes = []
    if row["status"] not in ("ok", "absent"):
        notes.append(row["reason"] if row["status"] == "unusable" else f"{row['status']}: {row['reason']}")
    reason = (row.get("out") or {}).get("reason")
    if reason:
        notes.append(reason)
    return notes


def _head(report: dict[str, Any]) -> str:
    return (
        f"isthmus {report['isthmus']}, Python {report['python']}, {report['machine']}; {report['elements']:,} "
        "elements; ns per call from Python"
    )


def _notes(report: dict[str, Any]) -> list[str]:
    return [f"{row['name']}: {note}" for row in report["frameworks"] for note in notes_of(row)]


def text_table(report: dict[str, Any]) -> str:
    rows = [_TITLES, *(_cells(row) for row in report["frameworks"])]
    width = min(terminal_width() or WIDTH, WIDTH)
    widths = fitting_widths(rows, width)
    # Over the columns of each direction, its name.
    start_in = sum(widths[:2]) + 4
    start_out = sum(widths[:5]) + 10
    start_back = sum(widths[:7]) + 14
    over = f"{'':{start_in}}{'into isthmus':{start_out - start_in}}{'out of isthmus':{start_back - start_out}}".rstrip()
    out = [*textwrap.wrap(_head(report), width), "", over, *text_lines(rows, _RIGHT, widths)]
    notes = _notes(report)
    if notes:
        out.append("")
    for note in notes:
        out += textwrap.wrap(note, width, subsequent_indent="    ", break_long_words=False)
    return "\n".join([*out, "", *textwrap.wrap(_LEGEND, width)])


def rich_table(report: dict[str, Any]) -> Group:
    """The same, for rich: frameworks that are not installed are dim, memory is coloured by how it arrived."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=_head(report), title_justify="left", caption=_LEGEND, caption_justify="left")
    for i, title in enumerate(_TITLES):
        direction = {2: "in: ", 3: "in: ", 4: "in: ", 5: "out: ", 6: "out: "}.get(i, "")
        table.add_column(direction + title, justify="right" if i in _RIGHT else "left", no_wrap=i not in (1, 2))
    for row in report["frameworks"]:
        cells = [Text(cell, style=_STYLES.get(cell.split(" ")[0], "")) for cell in _cells(row)]
        table.add_row(*cells, style="dim" if row["status"] == "absent" else "")
    return Group(table, *map(Text, _notes(report)))
