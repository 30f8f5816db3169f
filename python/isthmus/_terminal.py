"""Tables for people: drawn by rich if it is installed and the output is a terminal, else lines of text."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def terminal_width() -> int | None:
    """The columns of the terminal, or those that COLUMNS names; None for a pipe or a file, which have no width."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal or os.environ.get("COLUMNS", "").isdigit() else None


_GAP = 2  # between columns
_LEAST = 4  # of a column that is made narrower


def fitting_widths(rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """The widths of the columns, the widest made narrower until a line has at most `width` columns."""
    widths = column_widths(rows)
    while width is not None and sum(widths) + _GAP * (len(widths) - 1) > width and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return widths


def text_lines(
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    widths: Sequence[int] | None = None,
    *,
    head: bool = True,
) -> Iterator[str]:
    """The rows in columns of equal width, two spaces apart, the first underlined if it is the `head`; `right`: the
    columns aligned there. A cell wider than its column in `widths` goes on below."""
    import textwrap  # here: it costs start-up a millisecond

    fitted = column_widths(rows) if widths is None else widths

    def lines(cells: Sequence[str]) -> Iterator[str]:
        folded = [textwrap.wrap(cell, w) if len(cell) > w else [cell] for cell, w in zip(cells, fitted, strict=True)]
        for parts in zip_longest(*folded, fillvalue=""):
            padded = (
                c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(parts, fitted, strict=True))
            )
            yield (" " * _GAP).join(padded).rstrip()

    for number, row in enumerate(rows):
        yield from lines(row)
        if head and number == 0:
            yield from lines(["-" * width for width in fitted])


def show(text: str, drawn: Callable[[], Any]) -> None:
    """Prints what `drawn` returns, which rich knows how to draw, or the text without a terminal or without rich.
    Prints nothing if the process has no stdout."""
    if sys.stdout is not None and sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console

        Console(highlight=False).print(drawn())
    else:
        print(text)
