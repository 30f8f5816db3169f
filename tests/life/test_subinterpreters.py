"""Tensors of the main interpreter on a thread that runs another: given back to the one they came from,
or left to it."""

from __future__ import annotations

import sys

import pytest

PREAMBLE = """
import ctypes, gc, sys, threading, time, weakref
import inner
memory = ctypes.create_string_buffer(8)
where = []
class Owner:
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (ctypes.addressof(memory), False), "version": 3}
    def __del__(self):
        where.append(inner.interpreter())
def wait():
    # What was left behind is given back when the main interpreter comes to it.
    deadline = time.monotonic() + 20
    while not where and time.monotonic() < deadline:
        time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def inner(compile_extension):
    return compile_extension("inner.cpp", name="inner")


@pytest.fixture(params=[False, True], ids=["one GIL", "own GIL"])
def own_gil(request: pytest.FixtureRequest) -> bool:
    if request.param and sys.version_info < (3, 12):
        pytest.skip("an interpreter has a GIL of its own from Python 3.12 on")
    return request.param


@pytest.mark.parametrize("how", ["held", "released"])
def test_a_drop_within_another_interpreter(child, inner, own_gil: bool, how: str) -> None:
    out = child(
        f"""{PREAMBLE}
assert inner.interpreter() == 0
inner.keep(Owner())
inner.drop_within({own_gil}, {how!r})
wait()
assert where == [0], f"the finalizer ran in {{where}}"
print("well")""",
        inner,
        timeout=40,
    )
    assert out == "well\n"


def test_many_drops_are_all_given_back(child, inner, own_gil: bool) -> None:
    out = child(
        f"""{PREAMBLE}
for n in range(20):
    inner.keep(Owner())
    inner.drop_within({own_gil}, "held" if n % 2 else "released")
deadline = time.monotonic() + 20
while len(where) < 20 and time.monotonic() < deadline:
    time.sleep(0.001)
assert where == [0] * 20, where
print("well")""",
        inner,
        timeout=40,
    )
    assert out == "well\n"


def test_a_drop_just_before_the_end(child, inner, own_gil: bool) -> None:
    """Nothing comes after it to give the owner back; the process ends all the same."""
    out = child(
        f"""{PREAMBLE}
class Quiet(Owner):
    __del__ = lambda self: None
inner.keep(Quiet())
inner.drop_within({own_gil}, "held")
print("well")""",
        inner,
        timeout=40,
    )
    assert out == "well\n"


@pytest.mark.parametrize("how", ["import", "exported"])
def test_another_interpreter_is_refused_in_words(child, inner, own_gil: bool, how: str) -> None:
    """In release builds as in debug builds: the state of one interpreter is not shown to another."""
    out = child(
        f"""{PREAMBLE}
inner.keep(bytearray(8))
said = [inner.drop_within({own_gil}, {how!r}) for _ in range(3)]
assert said == ["bad_thread"] * 3, said
print("well")""",
        inner,
        timeout=40,
    )
    assert out == "well\n"


@pytest.mark.parametrize("how", ["held", "released"])
@pytest.mark.parametrize("made", ["capsule", "versioned capsule", "storage"])
def test_a_foreign_release_within_another_interpreter(child, inner, made: str, own_gil: bool, how: str) -> None:
    """A deleter of somebody else takes the GIL by itself, of whichever interpreter it knows."""
    if made == "storage":
        pytest.importorskip("torch")
        take = """
import torch
tensor = torch.as_tensor(np.asarray(Memory()))
storage = tensor.untyped_storage()  # which Python has seen
inner.keep(tensor)
tensor.data = torch.zeros(2)
del storage, tensor"""
    else:
        pytest.importorskip("numpy")
        take = f"""
inner.keep(np.asarray(Memory()).__dlpack__({"max_version=(1, 0)" if made == "versioned capsule" else ""}))"""
    out = child(
        f"""{PREAMBLE}
import numpy as np
numbers = np.zeros(3, np.float32)
class Memory:
    __array_interface__ = numbers.__array_interface__
    def __del__(self):
        where.append(inner.interpreter())
{take}
gc.collect()
assert not where
inner.drop_within({own_gil}, {how!r})
wait()
assert where == [0], f"the finalizer ran in {{where}}"
print("well")""",
        inner,
        timeout=40,
    )
    assert out == "well\n"
