"""Long chains of views, each of which owns the last: released without recursion, and short where they can be."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

import pytest

#: With 42 bytes of stack for each link: no frame is that small, so a release that recurses overflows it.
LENGTH = 25_000
STACK = 1 << 20

KINDS = ["as_strided", "wrap", "callable", "dlpack", "legacy dlpack", "blob", "in turn"]


@pytest.fixture
def child(child) -> Callable[..., str]:
    """With a stack so small that chains can be short."""
    return functools.partial(child, stack=STACK)


@pytest.fixture(scope="module")
def chains(compile_extension):
    return compile_extension("chains.cpp", name="chains")


@pytest.mark.slow
@pytest.mark.parametrize("build", [(), ("-O0",)], ids=["-O2", "-O0"])
@pytest.mark.parametrize("where", ["here", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_of_cpp(child, compile_extension, kind: str, where: str, build: tuple[str, ...]) -> None:
    """Without optimisation no call is turned into a jump."""
    folder = compile_extension("chains.cpp", *build, name="chains")
    out = child(f"import chains; print(chains.chain({kind!r}, {LENGTH}, {where!r}))", folder)
    assert out == "True\n"


@pytest.mark.parametrize("kind", ["as_strided", "dlpack", "legacy dlpack"])
def test_a_view_holds_the_root(child, chains, kind: str) -> None:
    """The links between are gone as soon as nobody holds them: the chain is of two."""
    out = child(f"import chains; chains.wrapped(b'1234'); print(chains.blocks({kind!r}, 1000))", chains)
    assert int(out) <= 2


STEPS = {
    "as_strided": "x = chains.strided(x)",
    "wrapped": "x = chains.wrapped(x)",
    "memoryview": "x = isthmus.from_dlpack(memoryview(x))",
    "capsule": "x = isthmus.from_dlpack(x.__dlpack__(max_version=(1, 0)))",
    "legacy capsule": "x = isthmus.from_dlpack(x.__dlpack__())",
    "np.from_dlpack": "x = isthmus.from_dlpack(np.from_dlpack(x))",
    "to numpy": "x = isthmus.from_dlpack(x.to('numpy').view())",
    "np.asarray": "x = isthmus.from_dlpack(np.asarray(x)[:])",
    "blob": "x = isthmus.from_blob(isthmus.to_blob(x).as_dict(), owner=x)",
    "blob with an ndarray": "x = isthmus.from_blob(isthmus.to_blob(x).as_dict(), owner=np.asarray(x)[:])",
    "as_read_only": "x = chains.strided(x.as_read_only())",
    "torch.from_dlpack": "x = isthmus.from_dlpack(torch.from_dlpack(x))",
    "to torch": "x = isthmus.from_dlpack(x.to('torch').view(4))",
    "array interface": "x = isthmus.from_dlpack(Interface(x))",
    "producer": "x = isthmus.from_dlpack(Producer(x))",
    "a list as the owner": "x = isthmus.from_blob(isthmus.to_blob(x).as_dict(), owner=[x])",
}

PREAMBLE = """
import gc, sys, threading, weakref
import chains, isthmus
import numpy as np
class Root(np.ndarray):
    pass
class Interface:
    def __init__(self, x):
        self.x = x
        self.__array_interface__ = x.__array_interface__
class Producer:
    def __init__(self, x): self.x = x
    def __dlpack__(self, **options): return self.x.__dlpack__(**options)
    def __dlpack_device__(self): return self.x.__dlpack_device__()
"""


@pytest.mark.parametrize("collect", [True, False], ids=["gc", "no gc"])
@pytest.mark.parametrize("step", STEPS)
def test_a_chain_of_python(child, chains, step: str, collect: bool) -> None:
    for word, module in (("np", "numpy"), ("torch", "torch")):
        if word in STEPS[step] and importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    out = child(
        f"""{PREAMBLE}
{"import torch" if "torch" in STEPS[step] else ""}
if not {collect}:
    gc.disable()
gc.freeze()
root = np.array([1, 2, 3, 4], np.float32).view(Root)
reference = weakref.ref(root)
x = isthmus.from_dlpack(root)
for _ in range({LENGTH}):
    {STEPS[step]}
assert np.asarray(x).tolist() == [1, 2, 3, 4]
del root
if {collect}:
    gc.collect()
assert reference() is not None
del x
assert reference() is None
print("well")""",
        chains,
        timeout=200,
    )
    assert out == "well\n"


@pytest.mark.parametrize("step", ["as_strided", "np.from_dlpack", "memoryview"])
def test_a_chain_that_the_collector_takes(child, chains, step: str) -> None:
    """It hangs on its own root, so that only the collector ends it."""
    out = child(
        f"""{PREAMBLE}
root = np.array([1, 2, 3, 4], np.float32).view(Root)
reference = weakref.ref(root)
x = isthmus.from_dlpack(root)
for _ in range({LENGTH}):
    {STEPS[step]}
root.last = np.asarray(x)
del root, x
gc.collect()
print("well")""",
        chains,
        timeout=200,
    )
    assert out == "well\n"


def test_a_finalizer_within_the_release_makes_and_drops_tensors(child, chains) -> None:
    """Whatever queue the release goes through is entered again by what it calls."""
    out = child(
        f"""{PREAMBLE}
count = 0
class Noisy(Root):
    def __del__(self):
        global count
        count += 1
        inner = isthmus.from_dlpack(np.zeros(3, np.float32))
        for _ in range(3):
            inner = chains.wrapped(isthmus.from_dlpack(np.zeros(4, np.float32)))
        del inner
x = isthmus.from_dlpack(np.zeros(4, np.float32).view(Noisy))
for i in range(20_000):
    fields = isthmus.to_blob(x).as_dict()
    x = isthmus.from_blob(fields, owner=[x, np.zeros(4, np.float32).view(Noisy)])
del x
assert count == 20_001, count
print("well")""",
        chains,
        timeout=200,
    )
    assert out == "well\n"
