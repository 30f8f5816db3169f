"""Forks inside finalizers, and the exit that waits for those inside: not for ever,
and not for those that never were."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

PREAMBLE = """
import atexit, ctypes, gc, os, signal, sys, threading, time, weakref
import life
from elsewhere import elsewhere
memory = ctypes.create_string_buffer(8)
class Owner:
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (ctypes.addressof(memory), False), "version": 3}
"""

# In the child: the finalizer returns, the interpreter goes on, makes and drops tensors, and ends.
CHILD = """
def in_child():
    signal.alarm(10)
    for drop in (life.drop, life.drop_without_gil):
        other = Owner()
        ref = weakref.ref(other)
        number = life.keep(other)
        del other
        drop(number)
        assert ref() is None
    print("child is done", flush=True)
"""


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil"])
@pytest.mark.parametrize("way", ["exit", "_exit", "exec"])
def test_a_fork_in_a_finalizer(child, life, drop: str, way: str) -> None:
    ending = {"exit": "sys.exit(0)", "_exit": "os._exit(0)", "exec": "os.execl('/bin/true', 'true')"}[way]
    out = child(
        f"""{PREAMBLE}{CHILD}
parent = os.getpid()
pid = None
class Forking(Owner):
    def __del__(self):
        global pid
        pid = os.fork()
life.own(b"bytes")
life.{drop}(life.keep(Forking()))
if os.getpid() != parent:
    in_child()
    {ending}
status = os.waitpid(pid, 0)[1]
assert status == 0, status
print("parent is done")""",
        life,
    )
    assert out == "child is done\nparent is done\n"


def test_forks_within_forks(child, life) -> None:
    """Each child drops what it inherited, without the GIL, and forks in that finalizer again."""
    out = child(
        f"""{PREAMBLE}
parent = os.getpid()
class Forking(Owner):
    def __del__(self):
        pid = os.fork()
        if pid == 0:
            return signal.alarm(10)
        status = os.waitpid(pid, 0)[1]
        print(f"waited: {{status}}", flush=True)
life.own(b"bytes")
numbers = [life.keep(Forking()) for _ in range(3)]
while numbers:
    life.drop_without_gil(numbers.pop())
sys.exit(0)""",
        life,
    )
    assert out == 7 * "waited: 0\n"


@pytest.mark.parametrize("drop", ["drop_on_thread", "drop_without_gil"])
def test_an_earlier_hook_that_a_finalizer_waits_for(child, life, drop: str) -> None:
    """The finalizer waits for an event that a hook sets which runs after ours:
    the exit must not wait for the finalizer."""
    out = child(
        f"""{PREAMBLE}
entered, event = threading.Event(), threading.Event()
@atexit.register
def earlier():
    print("the hook", flush=True)
    event.set()
class Waiting(Owner):
    def __del__(self):
        entered.set()
        event.wait()
life.own(b"bytes")
number = elsewhere(lambda: life.keep(Waiting()))
threading.Thread(target=lambda: life.{drop}(number), daemon=True).start()
assert entered.wait(20)""",
        life,
    )
    assert out == "the hook\n"


RUN_HOOKS = f"""{PREAMBLE}
life.own(b"bytes")
atexit._run_exitfuncs()
"""


@pytest.mark.parametrize("drop", ["drop", "drop_without_gil", "drop_on_thread"])
def test_the_hooks_run_in_a_living_interpreter(child, life, drop: str) -> None:
    """atexit._run_exitfuncs() is what multiprocessing's helpers call; the interpreter lives on, and so do drops."""
    out = child(
        f"""{RUN_HOOKS}
for again in range(2):
    owner = Owner()
    ref = weakref.ref(owner)
    number = life.keep(owner)
    del owner
    assert life.own(b"bytes")
    life.{drop}(number)
    deadline = time.monotonic() + 20
    while ref() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
        life.own(b"bytes")
    assert ref() is None, "the owner is never given back"
    atexit._run_exitfuncs()
print("well")""",
        life,
    )
    assert out == "well\n"


def test_the_end_after_hooks_that_ran_before(child, life) -> None:
    """The hook is gone then; the end of the interpreter is met all the same."""
    code = f"""{RUN_HOOKS}
class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.2)
sys.modules["late"] = Late()
for delay in range(0, 300_000, 1_000):
    life.drop_later(life.keep(Owner()), delay)
def work():
    while True:
        life.drop_without_gil(life.keep(Owner()))
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
print("main is done", flush=True)"""
    for _ in range(3):
        assert child(code, life) == "main is done\n"


def test_hooks_that_are_run_by_a_forked_child(child, life) -> None:
    """As multiprocessing's children do, which then leave by os._exit."""
    out = child(
        f"""{PREAMBLE}{CHILD}
life.own(b"bytes")
pid = os.fork()
if pid == 0:
    atexit._run_exitfuncs()
    in_child()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("well")""",
        life,
    )
    assert out == "child is done\nwell\n"


def test_multiprocessing_by_fork_from_a_finalizer(child, life) -> None:
    out = child(
        f"""{PREAMBLE}{CHILD}
import multiprocessing
context = multiprocessing.get_context("fork")
codes = []
class Starting(Owner):
    def __del__(self):
        process = context.Process(target=in_child)
        process.start()
        process.join()
        codes.append(process.exitcode)
life.own(b"bytes")
life.drop_without_gil(life.keep(Starting()))
assert codes == [0], codes
print("well")""",
        life,
    )
    assert out == "child is done\nwell\n"
