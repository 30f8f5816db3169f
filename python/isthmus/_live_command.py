"""``isthmus live``: runs a program with the list of tensors kept, and shows what is alive at its end."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import TYPE_CHECKING

from ._live import live

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_command(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "live",
        help="run a program, and show the tensors that are alive at its end",
        description="Run a Python program with the list of isthmus.live() kept, and show the tensors that are alive at "
        "its end, also if it fails: what its module still holds, and what was never released.",
    )
    parser.add_argument("--trace", action="store_true", help="note where each tensor was made, in Python and in C++")
    parser.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", metavar="PROGRAM", help="a file, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARG", help="what the program is given")
    parser.set_defaults(run=_run, fail=parser.error)


def _run(options: argparse.Namespace) -> int:
    if not options.is_module and not os.path.exists(options.program):
        options.fail(f"argument 'PROGRAM': found {options.program!r}; expected a file, or a module after -m")
    sys.argv = [options.program, *options.arguments]
    live.enable(tracing=options.trace)
    kept = None  # the program's variables, which are alive at its end
    try:
        if options.is_module:
            kept = runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(options.program)))
            kept = runpy.run_path(options.program, run_name="__main__")
    finally:
        live.show()
        live.disable()
        del kept
    return 0
