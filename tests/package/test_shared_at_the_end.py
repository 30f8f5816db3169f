"""Threads that are inside a call of isthmus.shared when the interpreter ends: they stop, and the process ends well."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("Linux", allow_module_level=True)

pytestmark = pytest.mark.skipif(
    "ISTHMUS_SANITIZER" in os.environ, reason="UBSan reports the reference to a forced unwinding, which GCC leaves null"
)

# `Late` keeps the interpreter ending for a while with the GIL given away, so that the threads ask for it in that time.
PROGRAM = """
import sys, threading, time
import numpy as np
from isthmus import shared

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)
sys.modules["late"] = Late()

inside = threading.Event()
x = np.ones(1 << 16)

def trim(): shared.trim()
def empty(): shared.empty((1 << 20,))
def share(): shared.share(x)
def tree(ours, theirs):
    ours.send({"x": x, "y": x})
    theirs.receive()
def tensor(ours, theirs):
    ours.send(x)
    theirs.receive()
def wait(ours, theirs):
    theirs.settimeout(0.001)
    try:
        theirs.receive()
    except TimeoutError:
        pass

def loop():
    act = globals()[sys.argv[1]]
    ends = shared.Channel.pair() if act.__code__.co_argcount else ()
    act(*ends)
    inside.set()
    while True:
        act(*ends)

for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
assert inside.wait(20)
time.sleep(0.05)
"""


@pytest.mark.parametrize("act", ["trim", "empty", "share", "tree", "tensor", "wait"])
def test_the_process_ends_well(act: str) -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PROGRAM, act], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
