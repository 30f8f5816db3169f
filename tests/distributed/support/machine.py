"""Another machine, as far as two programs can tell: network, processes, shared memory and mounts apart from this one's,
at the other end of a cable. This process has to be in a network namespace apart already (see APART)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

#: What a program of `far` is started with.
APART = ("unshare", "--net", "--ipc", "--mount")
_FARTHER = ("unshare", "--net", "--ipc", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")

NEAR, FAR = "10.99.0.1", "10.99.0.2"

# Its interface has come by the time that it may go on.
_BOOT = f"""
mount -t tmpfs -o size=$1 tmpfs /dev/shm
echo up; read go
ip link set lo up && ip addr add {FAR}/24 dev eth0 && ip link set eth0 up
echo up
exec sleep 1000
"""


class Far:
    """Runs commands there."""

    def __init__(self, first: subprocess.Popen[str]) -> None:
        with open(f"/proc/{first.pid}/task/{first.pid}/children") as children:
            self._pid = children.read().split()[0]

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "--target", self._pid, "--net", "--ipc", "--mount", "--pid", "--"]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.enter, *command])


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextlib.contextmanager
def far(shm: str = "4k") -> Iterator[Far]:
    """A machine at FAR that reaches this one at NEAR, and whose /dev/shm is so large. Raises OSError or
    subprocess.SubprocessError."""
    _run("ip", "link", "set", "lo", "up")
    first = subprocess.Popen(
        [*_FARTHER, "sh", "-c", _BOOT, "sh", shm], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdout.readline()
        _run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(first.pid))
        _run("ip", "addr", "add", f"{NEAR}/24", "dev", "eth0")
        _run("ip", "link", "set", "eth0", "up")
        first.stdin.write("go\n")
        first.stdout.readline()
        yield Far(first)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
