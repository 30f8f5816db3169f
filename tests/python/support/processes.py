"""Python code in a process of its own, which finds the modules that its test finds; and a limit on waits for one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

#: Modules that the tests share.
SUPPORT = Path(__file__).resolve().parent


@contextlib.contextmanager
def waiting_at_most(seconds: int) -> Iterator[None]:
    """A wait for a process that is gone, or hangs, is one failed test and not the end of all of them."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"waited {seconds} s for another process")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
