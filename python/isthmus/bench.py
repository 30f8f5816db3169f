"""``isthmus bench``: what an exchange costs here, beside the other importers that are installed, in one run.

Only calls from Python are compared, so that nothing has to be compiled. All rows are measured in turn, round by round.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import isthmus

from ._terminal import fitting_widths, terminal_width, text_lines
from .timing import ELEMENTS, ROUNDS, Call, compare, way_out

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_Function = Callable[[Any], Any]


def add_command(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="what an exchange costs by Isthmus and by the other importers",
        description="Time an exchange of 1,000 float32 elements, called from Python, by Isthmus and by the other "
        "importers that are installed. Best of the rounds, the empty call taken off.",
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help="how often each is measured (%(default)d)"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON instead")
    parser.set_defaults(run=_run)


def _load(module: str) -> Any:
    """The module, or None when it is absent or does not load."""
    try:
        return importlib.import_module(module)
    except Exception:
        return None


def _there_and_back(name: Any) -> _Function:
    return lambda array: isthmus.from_dlpack(array).to(name)


def _cases() -> Iterator[tuple[str, str, Call]]:
    """(exchange, by whom, what is called) for what is installed, of the frameworks that can live in one process."""
    numpy, torch, tvm_ffi = _load("numpy"), _load("torch"), _load("tvm_ffi")
    jax_numpy, jax_dlpack = _load("jax.numpy"), _load("jax.dlpack")
    sources: dict[str, Any] = {}
    if torch:
        sources["torch"] = torch.zeros(ELEMENTS)
    if numpy:
        sources["numpy"] = numpy.zeros(ELEMENTS, "float32")
    if jax_numpy:
        sources["jax"] = jax_numpy.zeros(ELEMENTS, "float32")
    importers: dict[str, _Function] = {"isthmus": isthmus.from_dlpack}
    if tvm_ffi:
        importers["tvm_ffi"] = tvm_ffi.from_dlpack
    if numpy:
        importers["numpy"] = numpy.from_dlpack
    if torch:
        importers["torch"] = torch.from_dlpack
    if jax_dlpack:
        importers["jax"] = jax_dlpack.from_dlpack
    for source, array in sources.items():
        for name, function in importers.items():
            if name != source:
                yield f"{source} -> tensor", f"{name}.from_dlpack", (function, array)

    tensor = isthmus.empty((ELEMENTS,))
    outs = {
        "torch": torch and torch.from_dlpack,
        "numpy": numpy and numpy.from_dlpack,
        "jax": jax_dlpack and jax_dlpack.from_dlpack,
    }
    for name, function in outs.items():
        if function:
            yield f"tensor -> {name}", f"t.to({name!r})", way_out(tensor, name)
            yield f"tensor -> {name}", f"{name}.from_dlpack(t)", (function, tensor)
    for name, array in sources.items():
        if name != "jax":
            yield f"{name} and back", "isthmus", (_there_and_back(name), array)


def bench(rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure; the report's "rows" are dicts of exchange, by, ns (or error). Nanoseconds per call, the best of
    `rounds`."""
    rows: list[dict[str, Any]] = []
    timed: list[tuple[dict[str, Any], Call]] = []
    for exchange, by, (function, argument) in _cases():
        row: dict[str, Any] = {"exchange": exchange, "by": by}
        rows.append(row)
        try:
            function(argument)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        else:
            timed.append((row, (function, argument)))
    for (row, _), ns in zip(timed, compare([call for _, call in timed], rounds=rounds), strict=True):
        row["ns"] = ns
    return {
        "isthmus": isthmus.__version__,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "torch", "jax", "apache-tvm-ffi") if _is_known(name)},
        "elements": ELEMENTS,
        "rows": rows,
    }


def _is_known(package: str) -> bool:
    try:
        version(package)
    except ImportError:
        return False
    return True


WIDTH = 100  # of the table in a pipe


def _text(report: dict[str, Any], width: int = WIDTH) -> str:
    import textwrap  # here: it costs start-up a millisecond

    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    head = (
        f"isthmus {report['isthmus']}, Python {report['python']}; {versions}; {report['elements']:,} float32 elements"
    )
    cells = [("exchange", "by", "ns", "to the first")]
    first: dict[str, float] = {}
    for row in report["rows"]:
        if "ns" in row:
            base = first.setdefault(row["exchange"], max(row["ns"], 1.0))
            cells.append((row["exchange"], row["by"], f"{row['ns']:,.0f}", f"{row['ns'] / base:.1f}x"))
        else:
            cells.append((row["exchange"], row["by"], "-", row["error"]))
    table = text_lines(cells, (2, 3), fitting_widths(cells, width), head=False)
    return "\n".join([*textwrap.wrap(head, width), "", *table])


def _run(options: argparse.Namespace) -> int:
    report = bench(max(1, options.rounds))
    print(json.dumps(report, indent=2) if options.json else _text(report, terminal_width() or WIDTH))
    return 0
