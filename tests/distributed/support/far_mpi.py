"""The two ranks of mpi_ranks.py, on two machines: MPI reaches the other one by a command, as by ssh."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import launching
from machine import FAR, NEAR, far


def main() -> int:
    mpiexec = launching.mpiexec()
    assert mpiexec is not None
    # MPI itself wants some shared memory when it starts.
    with far("64m") as machine, tempfile.TemporaryDirectory() as folder:
        print("machine", flush=True)
        # Called with options, a host and the words of a command.
        ssh = Path(folder) / "ssh"
        ssh.write_text(
            f'#!/bin/sh\nwhile [ "$1" != {FAR} ]; do shift; done; shift\nexec {shlex.join(machine.enter)} sh -c "$*"\n'
        )
        ssh.chmod(0o755)
        command = [mpiexec, "-launcher", "ssh", "-launcher-exec", str(ssh), "-iface", "eth0"]
        ranks = [sys.executable, str(Path(__file__).with_name("mpi_ranks.py"))]
        settings = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
        return subprocess.run(
            [*command, "-hosts", f"{NEAR},{FAR}", "-n", "2", "-ppn", "1", *ranks], env={**os.environ, **settings}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
