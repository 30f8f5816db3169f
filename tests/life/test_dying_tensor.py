"""An isthmus.Tensor that is about to die is no longer handed out: its weak references' callbacks ask for it again."""

from __future__ import annotations

import pytest

# The C++ side keeps a handle, so that the memory outlives the object that shows it.
PREAMBLE = """
import ctypes, gc, sys, threading, weakref
import life

memory = ctypes.create_string_buffer(b"8 bytes!", 8)
class Owner:
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (ctypes.addressof(memory), False), "version": 3}
owner = Owner()
number = life.keep(owner)
got = []

def check():
    gc.collect()
    assert len(got) == 1, got
    again = got.pop()
    assert bytes(memoryview(again)) == b"8 bytes!"
    del again
    later = life.export(number, "tensor")
    alone = object()
    assert later.shape == (8,) and sys.getrefcount(later) == sys.getrefcount(alone)
    del later
    gc.collect()
    life.drop(number)
    ref = weakref.ref(owner)
    globals().pop("owner")
    gc.collect()
    assert ref() is None, "the owner outlived its tensors"
    print("well")
"""


@pytest.mark.parametrize("framework", ["tensor", "numpy", "capsule"])
def test_a_weak_reference_callback_exports_the_kept_handle(child, life, framework: str) -> None:
    if framework == "numpy":
        pytest.importorskip("numpy")
    take = "isthmus.from_dlpack(again)" if framework == "capsule" else "again"
    out = child(
        f"""{PREAMBLE}
import isthmus
t = life.export(number, "tensor")
def callback(reference):
    assert reference() is None
    again = life.export(number, "{framework}")
    got.append({take})
reference = weakref.ref(t, callback)
del t
check()""",
        life,
    )
    assert out == "well\n"


def test_a_finalizer_exports_the_kept_handle(child, life) -> None:
    out = child(
        f"""{PREAMBLE}
t = life.export(number, "tensor")
weakref.finalize(t, lambda: got.append(life.export(number, "tensor")))
del t
check()""",
        life,
    )
    assert out == "well\n"


def test_another_thread_exports_it_during_the_callback(child, life) -> None:
    """The callback gives the GIL away, and a thread takes the handle to Python again."""
    out = child(
        f"""{PREAMBLE}
t = life.export(number, "tensor")
expected, done = threading.Event(), threading.Event()
def work():
    expected.wait()
    got.append(life.export(number, "tensor"))
    done.set()
thread = threading.Thread(target=work)
thread.start()
def callback(reference):
    expected.set()
    done.wait()
reference = weakref.ref(t, callback)
del t
thread.join()
check()""",
        life,
    )
    assert out == "well\n"


def test_the_last_ndarray_over_it_dies(child, life) -> None:
    """NumPy's array holds the object; the callback runs inside the array's end."""
    pytest.importorskip("numpy")
    out = child(
        f"""{PREAMBLE}
a = life.export(number, "numpy")
def callback(reference):
    got.append(life.export(number, "tensor"))
reference = weakref.ref(a.base, callback)
del a
check()""",
        life,
    )
    assert out == "well\n"


def test_an_export_while_the_collector_clears(child, life) -> None:
    """The object is garbage in a list; what the list's end releases exports the kept handle, and so brings it back."""
    out = child(
        f"""{PREAMBLE}
garbage = []
garbage.append(garbage)
inner = life.call_at_release(lambda: got.append(life.export(number, "tensor")))
# The list is cleared before its tensor, and the last item of it first.
garbage += [life.export(number, "tensor"), life.export(inner, "tensor")]
life.drop(inner)
del garbage
check()""",
        life,
    )
    assert out == "well\n"


def test_many_times_from_many_threads(child, life) -> None:
    """Objects of one handle made and dropped by four threads, each death asking for the next."""
    out = child(
        f"""{PREAMBLE}
sys.setswitchinterval(1e-6)
failures = []
def work():
    for _ in range(2000):
        t = life.export(number, "tensor")
        references = [weakref.ref(t, lambda _: life.export(number, "tensor").shape)]
        del t
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
got.append(life.export(number, "tensor"))
check()""",
        life,
    )
    assert out == "well\n"
