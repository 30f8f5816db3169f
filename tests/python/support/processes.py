"""Python code in a process of its own, which finds the modules that its test finds."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

#: Modules that the tests share.
SUPPORT = Path(__file__).resolve().parent


def environment(*folders: Path | str, **variables: str) -> dict[str, str]:
    """What this process has, with these variables, and with these folders before what PYTHONPATH names."""
    path = os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **variables}


def run_python(
    code: str, *folders: Path | str, timeout: float = 300, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the code, which imports from these folders; it must end well and in time."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", textwrap.dedent(code)],
        env=environment(*folders, **variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done
