"""The first use of Isthmus in a process: it waits for no lock that a forked child may have inherited taken."""

from __future__ import annotations

from pathlib import Path

import pytest

ext = pytest.importorskip("isthmus_test_ext")

SOURCE = """
import array, importlib._bootstrap, os, signal, sys, threading, time

# As in a child that was forked while another thread imported atexit.
sys.modules.pop("atexit", None)
taken = threading.Event()
lock = importlib._bootstrap._get_module_lock("atexit")
def take():
    lock.acquire()
    taken.set()
    time.sleep(60)
threading.Thread(target=take, daemon=True).start()
taken.wait()
signal.alarm(20)
import isthmus_test_ext as ext
t = ext.tensor_of(array.array("f", [1, 2]))
print(memoryview(t).tolist(), flush=True)
os._exit(0)
"""


def test_it_needs_no_lock_of_importlib(child) -> None:
    assert child(SOURCE, Path(ext.__file__).parent) == "[1.0, 2.0]\n"
