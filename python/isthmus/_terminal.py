"""Tables for people: drawn by rich if it is installed and the output is a terminal, else lines of text."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def text_lines(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """The rows in columns of equal width, two spaces apart, the first underlined; `right`: the columns aligned
    there."""
    widths = column_widths(rows)

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(padded).rstrip()

    yield line(rows[0])
    yield line(["-" * width for width in widths])
    yield from map(line, rows[1:])


def show(text: str, drawn: Callable[[], Any]) -> None:
    """Prints what `drawn` returns, which rich knows how to draw, or the text without a terminal or without rich."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console

        Console(highlight=False).print(drawn())
    else:
        print(text)
