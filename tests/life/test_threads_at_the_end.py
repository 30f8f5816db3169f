"""Threads that are inside Python code of a tensor's, a finalizer or a producer, when the interpreter ends."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import pytest

# The daemon thread goes on only when it gets the GIL back, which the interpreter's end denies it. `Late` keeps the
# interpreter ending for a while with the GIL given away, so that the thread asks for it in that time.
PREAMBLE = """
import ctypes, sys, threading, time
import life
from elsewhere import elsewhere

class Late:
    def __del__(self, sleep=time.sleep, print=print):
        sleep(0.4)
        print("the end", flush=True)
sys.modules["late"] = Late()

inside = threading.Event()
def dawdle():
    inside.set()
    for _ in range(300):
        time.sleep(0.01)

memory = ctypes.create_string_buffer(8)
class Owner:
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (ctypes.addressof(memory), False), "version": 3}
    def __del__(self):
        dawdle()

def drop_t():
    global t
    del t

def end_with(work):
    threading.Thread(target=work, daemon=True).start()
    assert inside.wait(20)
    print("main is done", flush=True)
"""

DROPS = {
    "tensor": """
        t = life.export(life.keep(Owner()), "tensor")
        life.drop(1)
        work = drop_t
    """,
    "package": """
        import isthmus
        t = isthmus.from_dlpack(Owner())
        work = drop_t
    """,
    "blob": """
        import isthmus
        t = isthmus.from_blob({"ptr": ctypes.addressof(memory), "shape": (8,), "dtype": "uint8"}, owner=Owner())
        work = drop_t
    """,
    "ndarray": """
        t = life.export(life.keep(Owner()), "numpy")
        life.drop(1)
        work = drop_t
    """,
    "slice of an ndarray": """
        t = life.export(life.keep(Owner()), "numpy")[2:]
        life.drop(1)
        work = drop_t
    """,
    "torch.Tensor": """
        import torch
        t = life.export(life.keep(Owner()), "torch")
        life.drop(1)
        work = drop_t
    """,
    "memoryview": """
        t = memoryview(life.export(life.keep(Owner()), "tensor"))
        life.drop(1)
        work = drop_t
    """,
    "released memoryview": """
        t = memoryview(life.export(life.keep(Owner()), "tensor"))
        life.drop(1)
        work = t.release
    """,
    "capsule": """
        t = life.export(life.keep(Owner()), "capsule")
        life.drop(1)
        work = drop_t
    """,
    "alias": """
        import isthmus
        t = isthmus.from_dlpack(Owner()).as_read_only()
        work = drop_t
    """,
    "cycle": """
        import gc
        gc.disable()
        class Cyclic(Owner):
            pass
        owner = Cyclic()
        owner.tensor = life.export(life.keep(owner), "tensor")
        life.drop(1)
        del owner
        work = gc.collect
    """,
    "handle": """
        number = life.keep(Owner())
        work = lambda: life.drop(number)
    """,
    "C++ owner": """
        number = life.call_at_release(dawdle)
        work = lambda: life.drop(number)
    """,
}


def needs(way: str) -> None:
    for word, module in (("ndarray", "numpy"), ("torch", "torch")):
        if word in way:
            pytest.importorskip(module)


@pytest.fixture
def end_within(child, life) -> Callable[..., None]:
    """end_within(code, preamble=…): the interpreter ends while the `work` of this code is under way on a daemon
    thread."""

    def run(code: str, preamble: str = PREAMBLE) -> None:
        out = child(f"{preamble}\nelsewhere(exec, {textwrap.dedent(code)!r}, globals())\nend_with(work)", life)
        assert out.split("\n")[:2] == ["main is done", "the end"]

    return run


@pytest.mark.parametrize("way", DROPS)
def test_a_finalizer_under_way_on_a_daemon_thread(end_within, way: str) -> None:
    needs(way)
    end_within(DROPS[way])


# A thread without the GIL announces itself, and the end waits for it; whoever waits longer than that is left behind.
WITHOUT_THE_GIL = {
    "handle without the GIL": "work = lambda: life.drop_without_gil(number)",
    "handle on a thread of C++": "work = lambda: life.drop_on_thread(number)",
}


@pytest.mark.parametrize("forever", [False, True], ids=["for a while", "for ever"])
@pytest.mark.parametrize("owner", ["life.keep(Owner())", "life.call_at_release(dawdle)"], ids=["Python", "C++"])
@pytest.mark.parametrize("way", WITHOUT_THE_GIL)
def test_a_finalizer_under_way_of_a_thread_without_the_gil(end_within, way: str, owner: str, forever: bool) -> None:
    preamble = PREAMBLE.replace("range(300)", "iter(int, 1)" if forever else "range(100)")
    end_within(f"number = {owner}\n{WITHOUT_THE_GIL[way]}", preamble)


PRODUCERS = {
    "__dlpack__": """
        class Producer:
            def __dlpack__(self, **options):
                dawdle()
                raise BufferError
            def __dlpack_device__(self):
                return (1, 0)
    """,
    "__array_interface__": """
        class Producer:
            @property
            def __array_interface__(self):
                dawdle()
                return {}
    """,
    "__arrow_c_array__": """
        class Producer:
            def __arrow_c_array__(self, requested_schema=None):
                dawdle()
                return ()
    """,
    "__buffer__": """
        class Producer:
            def __buffer__(self, flags):
                dawdle()
                return memoryview(b"bytes")
    """,
    "__release_buffer__": """
        class Producer:
            def __buffer__(self, flags):
                return memoryview(b"bytes")
            def __release_buffer__(self, view):
                dawdle()
    """,
}


@pytest.mark.parametrize("call", ["life.own", "life.borrow", "isthmus.from_dlpack", "isthmus.to_blob"])
@pytest.mark.parametrize("where", PRODUCERS)
def test_an_import_under_way_on_a_daemon_thread(end_within, where: str, call: str) -> None:
    if "buffer" in where and sys.version_info < (3, 12):
        pytest.skip("classes have __buffer__ from Python 3.12 on")
    end_within(f"import isthmus\n{textwrap.dedent(PRODUCERS[where])}\nwork = lambda: {call}(Producer())")


EXPORTS = {
    "an importer's module": """
        import types, isthmus
        module = types.ModuleType("cupy")
        module.from_dlpack = lambda x: dawdle()
        sys.modules["cupy"] = module
        t = isthmus.empty((4,))
        work = lambda: t.to("cupy")
    """,
    "a module's import": """
        import importlib.abc, isthmus
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "cupy":
                    dawdle()
        sys.meta_path.insert(0, Slow())
        t = isthmus.empty((4,))
        work = lambda: t.to("cupy")
    """,
    "pickling": """
        import isthmus, pickle
        t = isthmus.empty((4,))
        work = lambda: pickle.dumps(t, protocol=5, buffer_callback=lambda buffer: dawdle())
    """,
}


@pytest.mark.parametrize("where", EXPORTS)
def test_an_export_under_way_on_a_daemon_thread(end_within, where: str) -> None:
    end_within(EXPORTS[where])
