"""The list of live tensors while threads of C++ and of Python make tensors, and in a forked child."""

from __future__ import annotations

import pytest

# What is freed is filled with 0xA5, so that a row of memory that is gone does not look like a tensor.
PERTURB = {"MALLOC_PERTURB_": "165"}

CHECK = """
import sys, threading, time
import isthmus, life
life.own(b"bytes")  # which makes it known to the others
ROW = (7,), "float32", "cpu"
def rows():
    found = isthmus.live()
    known = "C++", "isthmus.Tensor"
    wrong = [t for t in found if (t.shape, str(t.dtype), str(t.device)) != ROW or t.producer not in known]
    assert not wrong, f"{len(wrong)} of {len(found)} rows are no tensors, the first {wrong[0]!r}"
"""


@pytest.mark.parametrize("tracing", [False, True], ids=["plain", "tracing"])
def test_switched_while_threads_of_cpp_make_tensors(child, life, tracing: bool) -> None:
    out = child(
        f"""{CHECK}
life.churn(3)
for _ in range({500 if tracing else 3000}):
    isthmus.live.enable(tracing={tracing})
    rows()
    isthmus.live.disable()
isthmus.live.enable()
time.sleep(0.05)
made = life.stop_churn()
assert isthmus.live() == []
isthmus.live.disable()
print("well")""",
        life,
        **PERTURB,
    )
    assert out == "well\n"


def test_switched_while_threads_of_python_make_tensors(child, life) -> None:
    out = child(
        f"""{CHECK}
sys.setswitchinterval(1e-6)
stop = False
def work():
    while not stop:
        life.drop_without_gil(life.empty())
        a, b = isthmus.empty((7,)), isthmus.empty((7,))
        v = a.as_read_only()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(1500):
    isthmus.live.enable()
    rows()
    isthmus.live.disable()
isthmus.live.enable()
stop = True
for thread in threads: thread.join()
assert isthmus.live() == []
print("well")""",
        life,
        **PERTURB,
    )
    assert out == "well\n"


def test_switched_by_two_threads(child, life) -> None:
    """One thread's off is another's on: what is left in the end is what the list says."""
    out = child(
        f"""{CHECK}
sys.setswitchinterval(1e-6)
life.churn(2)
def work():
    for _ in range(1000):
        life.live(True)
        life.live(None)
        life.live(False)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
life.stop_churn()
isthmus.live.enable()
assert isthmus.live() == []
print("well")""",
        life,
        **PERTURB,
    )
    assert out == "well\n"


def test_a_tensor_of_before_is_not_listed_twice(child, life) -> None:
    """Made while the list was kept, dropped while it was not, its address used again."""
    out = child(
        f"""{CHECK}
isthmus.live.enable()
held = [life.empty() for _ in range(50)]
isthmus.live.disable()
for number in held:
    life.drop(number)
isthmus.live.enable()
held = [life.empty() for _ in range(50)]
assert len(isthmus.live()) == 50
rows()
for number in held:
    life.drop(number)
assert isthmus.live() == []
print("well")""",
        life,
        **PERTURB,
    )
    assert out == "well\n"


def test_the_documented_fixture_beside_a_background_thread(child, life) -> None:
    """What `isthmus.testing` lists as left over is what the background thread holds, and never memory that is gone."""
    out = child(
        f"""{CHECK}
import re, isthmus.testing
life.churn(2)
line = re.compile(r"  \\S+ -> \\S+: float32\\[7\\] on cpu at 0x[0-9a-f]+, 28 bytes, [12] handles?, .* s old$")
for _ in range(2000):
    try:
        with isthmus.testing.assert_no_live_tensors(tracing=False, collect=False):
            pass
    except AssertionError as error:
        wrong = [text for text in str(error).splitlines()[1:] if not line.match(text)]
        assert not wrong, wrong[:3]
life.stop_churn()
with isthmus.testing.assert_no_live_tensors():
    held = isthmus.empty((7,))
    del held
print("well")""",
        life,
        **PERTURB,
    )
    assert out == "well\n"


@pytest.mark.parametrize("threads", ["C++", "Python"])
@pytest.mark.parametrize("tracing", [False, True], ids=["plain", "tracing"])
def test_a_fork_with_the_list_on(child, life, threads: str, tracing: bool) -> None:
    """The child makes, lists and drops tensors, whatever its parent's threads were at."""
    out = child(
        f"""{CHECK}
import os, signal
isthmus.live.enable(tracing={tracing})
stop = False
def work():
    while not stop:
        life.drop_without_gil(life.empty())
        isthmus.live()
if {threads!r} == "C++":
    life.churn(3)
else:
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
for round in range(100):
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        number = life.empty()
        assert any(t.shape == (7,) for t in isthmus.live())
        life.drop(number)
        isthmus.live.disable()
        isthmus.live.enable()
        assert isthmus.live() == []
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"round {{round}}: {{status}}"
stop = True
if {threads!r} == "C++":
    life.stop_churn()
print("well", flush=True)
os._exit(0)""",
        life,
    )
    assert out == "well\n"
