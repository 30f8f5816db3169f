"""``isthmus doctor``: what is installed here, and why one array is shared, copied, refused or slow."""

from __future__ import annotations

import argparse
import importlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isthmus

from ._isthmus import _framework_names, _protocol_of
from ._terminal import fitting_widths, show, terminal_width, text_lines
from .probe.child import version_of
from .probe.frameworks import FRAMEWORKS
from .timing import nanoseconds, way_out

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from rich.console import Group

#: Exits that are objects of ours or capsules: they refuse nothing that the frameworks' own would not.
_OWN_EXITS = ("tensor", "capsule", "capsule_legacy")
#: What XLA requires of memory that it shares.
_XLA_ALIGNMENT = 64


def _compiler() -> str:
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            return (done.stdout.splitlines() or [name])[0]
    return "none on PATH: an extension cannot be compiled here"


def _folder(find: Any) -> str:
    try:
        return str(find())
    except FileNotFoundError as error:
        return f"missing: {error}"


def _dlpack_header() -> str:
    for folder in isthmus.get_includes():
        header = Path(folder) / "dlpack" / "dlpack.h"
        if header.is_file():
            numbers = re.findall(r"(?m)^#define DLPACK_(?:MAJOR|MINOR)_VERSION (\d+)", header.read_text())
            return f"{'.'.join(numbers)} in {folder}"
    return "missing"


def environment() -> Iterator[tuple[str, str]]:
    """(what, value) of this interpreter, of the package and of what it needs to compile an extension; nothing is
    imported."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    yield "isthmus", f"{isthmus.__version__} in {Path(isthmus.__file__).parent}"
    yield (
        "Python",
        f"{platform.python_version()} ({platform.python_implementation()}, {'with' if gil else 'without'} the GIL)",
    )
    yield "system", f"{platform.platform()}, {platform.machine()}, {sys.byteorder}-endian"
    yield "compiler", _compiler()
    yield "Python.h", _folder(lambda: Path(sysconfig.get_path("include")) / "Python.h")
    yield "dlpack.h", _folder(_dlpack_header)
    yield "compiled library", _folder(isthmus.get_library)
    yield "CMake's isthmus_DIR", _folder(isthmus.get_cmake_dir)
    for name, framework in FRAMEWORKS.items():
        version = version_of(framework)
        if version is not None:
            yield name, version


def _entering(x: Any) -> tuple[isthmus.Tensor | None, list[tuple[str, str]]]:
    way = _protocol_of(x)
    found = [
        ("type", f"{type(x).__module__}.{type(x).__qualname__}"),
        ("way in", "none: its type offers no protocol" if way == "none" else way),
    ]
    try:
        tensor = isthmus.from_dlpack(x)
    except Exception as error:
        cause = f" (from {type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
        return None, [*found, ("from_dlpack", f"refused: {type(error).__name__}: {error}{cause}")]
    found.append(("from_dlpack", f"{'COPIED by its producer' if tensor.is_copied else 'shared'}: {tensor!r}"))
    found.append(("cost", f"{nanoseconds(isthmus.from_dlpack, x):,.0f} ns a call from Python"))
    found.append(("writable", "no: its producer says read-only" if tensor.read_only else "yes"))
    if tensor.nbytes and tensor.data_ptr % _XLA_ALIGNMENT:
        found.append(("alignment", f"not to {_XLA_ALIGNMENT} bytes: JAX copies it, TensorFlow does not take it"))
    return tensor, found


def _leaving(tensor: isthmus.Tensor, name: str) -> str:
    try:
        tensor.to(name)  # type: ignore[call-overload]
    except isthmus.Error as error:
        return f"refused: {error}"
    return f"shared, {nanoseconds(*way_out(tensor, name)):,.0f} ns"


def examine(x: Any) -> list[tuple[str, str]]:
    """(what, finding) of one array: its import path, whether it is shared, the cost of a call, and the result of each
    export.

    x: what `from_dlpack` takes, or refuses. The exits are those to the frameworks that this process has imported.
    Raises nothing that `x` raises: it is a finding.
    """
    tensor, found = _entering(x)
    if tensor is None:
        return found
    for name in _framework_names():
        module = FRAMEWORKS[name].module if name in FRAMEWORKS else name
        if name not in _OWN_EXITS and module in sys.modules:
            found.append((f"to({name!r})", _leaving(tensor, name)))
    return found


def _evaluate(expression: str) -> Any:
    """The value of an expression, whose first names are modules: ``torch.zeros(3).T``."""
    scope: dict[str, Any] = {}
    for name in re.findall(r"(?<![\w.])([A-Za-z_]\w*)\.", expression):
        try:
            scope[name] = importlib.import_module(
                {"np": "numpy", "jnp": "jax.numpy", "tf": "tensorflow"}.get(name, name)
            )
        except ImportError:
            continue
    return eval(expression, scope)


def _sections(expression: str) -> list[list[tuple[str, str]]]:
    sections = [list(environment())]
    if expression:
        sections.append([("array", expression), *examine(_evaluate(expression))])
    return sections


def _text(sections: list[list[tuple[str, str]]], width: int | None = None) -> str:
    return "\n\n".join("\n".join(text_lines(rows, (), fitting_widths(rows, width), head=False)) for rows in sections)


def report(expression: str = "") -> str:
    """The whole report: the environment, and what `examine` finds of the expression's value, if one is given."""
    return _text(_sections(expression))


def _drawn(sections: list[list[tuple[str, str]]]) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def table(rows: list[tuple[str, str]]) -> Table:
        drawn = Table(show_header=False)
        drawn.add_column(style="bold", no_wrap=True)
        for what, value in rows:
            bad = re.match(r"refused|COPIED|missing|none|no:|not to", value)
            good = value.startswith("shared")
            drawn.add_row(what, Text(value, style="yellow" if bad else "green" if good else ""))
        return drawn

    return Group(*map(table, sections))


def add_command(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say what is installed, and why an array is shared, copied or refused",
        description="Say what is installed here, and, of an array, which way it comes in, whether it is shared, what "
        "a call costs, and what each exit says. The text is made to be pasted into a report.",
    )
    parser.add_argument(
        "expression",
        nargs="?",
        default="",
        metavar="EXPRESSION",
        help="a Python expression whose value is the array, and whose first names are modules: 'torch.zeros(3, 4).T'",
    )
    parser.set_defaults(run=_run, fail=parser.error)


def _run(options: argparse.Namespace) -> int:
    try:
        sections = _sections(options.expression)
    except Exception as error:  # of the expression: its exceptions are not a report
        options.fail(f"argument 'EXPRESSION': {options.expression!r} raised {type(error).__name__}: {error}")
    show(_text(sections, terminal_width()), lambda: _drawn(sections))
    return 0
