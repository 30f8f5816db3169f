"""Processes for tests that begin where their imports are done: forked from one that made them,
so that each costs milliseconds.

What they need of a process of their own stays: its exit status, its own end of the interpreter, no state of another
test. The imports must start no thread.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
from pathlib import Path
from typing import Any, TextIO


class ForkServer:
    """A process that runs `imports` once, as if in `environment`, and is forked for each run()."""

    def __init__(self, imports: str, environment: dict[str, str]) -> None:
        self._command = [sys.executable, "-X", "faulthandler", "-W", "ignore", __file__, textwrap.dedent(imports)]
        self._environment = environment
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, code: str, *arguments: str, timeout: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the code as a program with these arguments and with these variables besides."""
        server = self._running()
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = {
                "code": textwrap.dedent(code),
                "arguments": arguments,
                "variables": variables,
                "out": str(out),
                "err": str(err),
                "timeout": timeout,
            }
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            assert answer, f"the process that is forked has ended with {server.wait()}: {self._command[-1]}"
            return subprocess.CompletedProcess(list(arguments), int(answer), out.read_text(), err.read_text())

    def run_well(self, code: str, *arguments: str, timeout: float = 300, **variables: str) -> str:
        """What the code printed; it must end well and in time."""
        done = self.run(code, *arguments, timeout=timeout, **variables)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _running(self) -> subprocess.Popen[str]:
        if self._server is None:
            self._server = subprocess.Popen(
                self._command, env=self._environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            atexit.register(self._server.wait)
            atexit.register(self._server.stdin.close)  # type: ignore[union-attr]  # which ends it, before it is waited for
        return self._server


def wait_for(child: int, timeout: float) -> int:
    """Its exit status as subprocess tells it; of one that does not end in time, that of a kill."""

    def kill(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    status = os.waitpid(child, 0)[1]
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status)


def become(request: dict[str, Any]) -> None:
    """Makes the forked process look like one that was started for the request."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for descriptor, path in enumerate((os.devnull, request["out"], request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.update(request["variables"])
    sys.argv = ["-c", *request["arguments"]]


def next_request(requests: TextIO, answers: TextIO) -> dict[str, Any] | None:
    """In a forked process its request; None in the one that is forked, when there are no more."""
    while line := requests.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            return request
        print(wait_for(child, request["timeout"]), file=answers, flush=True)
    return None


if __name__ == "__main__":
    imports = sys.argv[1]
    sys.argv = ["-c"]
    exec(compile(imports, "<imports>", "exec"), {"__name__": "imports"})
    taken = next_request(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
    if taken is not None:
        become(taken)
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(taken["code"], "<string>", "exec"), main.__dict__)
