"""``isthmus probe``: which frameworks here exchange with which, shared or copied, read-only or not, and at what
cost."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .._terminal import show
from .frameworks import FRAMEWORKS
from .page import html_page
from .parent import probe
from .table import rich_table, text_table

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add_command", "probe"]


def add_command(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "probe",
        help="try the exchange with every framework that is installed",
        description="Try the exchange with every framework, each in a process of its own, and show a table: whether "
        "the memory was shared (addresses compared), whether it may be written, what one call cost, and whether an "
        "array that came from the framework goes back as the same object.",
    )
    parser.add_argument(
        "frameworks", nargs="*", metavar="FRAMEWORK", help=f"all of them unless named: {', '.join(FRAMEWORKS)}"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON instead")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with a picture")
    parser.add_argument(
        "--timeout", type=float, default=120, metavar="S", help="seconds for each framework (%(default)g)"
    )
    parser.add_argument("--quiet", action="store_true", help="do not tell on stderr which framework is at work")
    parser.set_defaults(run=_run, fail=parser.error)


def _run(options: argparse.Namespace) -> int:
    unknown = [name for name in options.frameworks if name not in FRAMEWORKS]
    if unknown:
        options.fail(f"argument 'FRAMEWORK': found {unknown[0]!r}; expected one of {', '.join(FRAMEWORKS)}")

    def tell(name: str) -> None:
        if not options.quiet:
            print(f"probing {name} ...", file=sys.stderr, flush=True)

    report = probe(options.frameworks or list(FRAMEWORKS), timeout=options.timeout, tell=tell)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(text_table(report), lambda: rich_table(report))
    if options.html:
        options.html.write_text(html_page(report), encoding="utf-8")
        if not options.quiet:
            print(f"wrote {options.html}", file=sys.stderr)
    return 0
