"""What is left, and what is said, when processes are killed, starved or forked in the middle of an exchange."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import processes
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")

FAULTS = Path(__file__).parent / "support" / "faults.py"


def run(name: str, *before: str, limit: float = 100) -> str:
    shm = set(os.listdir("/dev/shm"))
    done = subprocess.run([*before, sys.executable, FAULTS, name], capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stdout + done.stderr
    mine = {entry for entry in set(os.listdir("/dev/shm")) - shm if "isthmus" in entry}
    assert not mine
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("sender_killed", "True"),
        ("keeper_killed", "peer_closed True True"),
        ("receiver_killed", "True 0"),
        ("pool_worker_killed", "True 0"),
        ("executor_worker_killed", "BrokenProcessPool BrokenProcessPool True True"),
        ("message_lost", f"-9 1 {4 << 20}"),
        ("many_held", "(True, True) True"),
        ("drops_what_it_inherited", "0 True"),
        ("without_capabilities", "0"),
        ("out_of_memory", "True 1"),
    ],
)
def test_fault(name: str, output: str):
    assert run(name) == output


def test_100_000_exchanges_take_no_memory_and_no_descriptors():
    with processes.waiting_at_most(300):
        assert run("many_exchanges", limit=300) == "True True True True True"


def test_a_dev_shm_of_64_mib():
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    small = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", small, "sh"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no mounts of its own for a process here")
    assert run("no_room", *command) == "True True True True"
