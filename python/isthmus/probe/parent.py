"""The probe: one child process per framework, since some cannot live together and some crash."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import isthmus

from ..timing import ELEMENTS
from .child import MARK, version_of
from .frameworks import FRAMEWORKS

# Some frameworks print a banner on every import, and one would take all memory of a GPU.
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "GLOG_minloglevel": "3",
    "ABSL_MIN_LOG_LEVEL": "3",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


#: The child's program. It finds this very package, wherever it was imported from, but before nothing else.
CHILD = """
import sys
sys.path.append(sys.argv[2])
from isthmus.probe.child import main
main(sys.argv[1])
"""


def probe(
    names: Iterable[str] = tuple(FRAMEWORKS),
    *,
    timeout: float = 120,
    tell: Callable[[str], None] = lambda name: None,
    child: str = CHILD,
) -> dict[str, Any]:
    """Try the exchange with each framework in a separate process; a failure is part of the report, never an exception.

    timeout: seconds for each. tell: called with the name of each that is installed. child: the program of the child
        process.

    The report's "frameworks" is a list of dicts: name, version, status ("ok", "absent", "unusable", "failed", "crashed"
    or "timeout"), reason, and if they were reached "in" (way, shared, writable, ns), "out" (shared, writable, ns,
    reason) and "back" (same). Times are nanoseconds of one call from Python, the call itself taken off.
    """
    rows = []
    for name in names:
        if _is_installed(FRAMEWORKS[name].module):
            tell(name)
            found = _probe_one(name, timeout, child)
        else:
            found = {"version": None, "status": "absent", "reason": "not installed"}
        rows.append({"name": name, **found})
    return {
        "isthmus": isthmus.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "elements": ELEMENTS,
        "frameworks": rows,
    }


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _probe_one(name: str, timeout: float, child: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-c", child, name, str(Path(__file__).parents[2])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**_QUIET, **os.environ},
        )
        output, code = done.stdout, done.returncode
        last_words = done.stderr.strip().rsplit("\n", 1)[-1]
    except subprocess.TimeoutExpired as expired:
        # The type says str or bytes; it is bytes, whatever was asked for.
        output = expired.stdout.decode(errors="replace") if isinstance(expired.stdout, bytes) else expired.stdout or ""
        code, last_words = None, ""
    found = _last_report(output)
    step = found.pop("step", "start")
    found.setdefault("version", version_of(FRAMEWORKS[name]))
    if code is None:
        return {**found, "status": "timeout", "reason": f"no answer within {timeout:g} s ({_during(step)})"}
    if step != "end":
        how = _signal_name(-code) if code < 0 else f"exit code {code}"
        # The last output of a killed process may be unrelated to its end.
        said = f": {last_words}" if code >= 0 and last_words else ""
        return {**found, "status": "crashed", "reason": f"{how} {_during(step)}{said}"}
    if "unusable" in found:
        return {**found, "status": "unusable", "reason": found.pop("unusable")}
    if "error" in found:
        return {**found, "status": "failed", "reason": found.pop("error")}
    errors = [f"{part}: {found[part]['error']}" for part in ("in", "out", "back") if "error" in found.get(part, {})]
    return {**found, "status": "failed" if errors else "ok", "reason": "; ".join(errors) or None}


def _last_report(output: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                found = json.loads(line.removeprefix(MARK))
            except ValueError:
                # Cut off by the end of the process: the line before it counts.
                continue
    return found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _during(step: str) -> str:
    return {
        "start": "before it began",
        "import": "while it was imported",
        "in": "while its array was imported",
        "back": "while its array went back",
        "out": "while a tensor was handed to it",
    }.get(step, step)
